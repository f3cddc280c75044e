"""The shell commands that a simulated image runs."""

from __future__ import annotations

import pytest

from clusters.images.image_command import Outcome, outcome_of


@pytest.mark.parametrize(
    ("command", "outcome"),
    [
        (("sleep", "1.5m"), Outcome(after=90)),
        (("sleep", "infinity"), Outcome(after=None)),
        (("sh", "-c", "sleep 5; exit 3"), Outcome(after=5, code=3)),
        (("/bin/sh", "-ec", "env && sleep infinity"), Outcome(prints=("A=1", "B=2"), after=None)),
        (("sh", "-c", "false && echo never"), Outcome(code=1)),
        (("sh", "-c", "false; echo 'a;b'"), None),
        (("sh", "-c", "exit 2; echo never"), Outcome(code=2)),
        (("sh", "-c", "echo a\necho b"), Outcome(prints=("a", "b"))),
        (("sh", "-c", "while true; do :; done"), None),
        (("python", "train.py"), None),
        (("sleep", "long"), None),
        ((), None),
    ],
    ids=str,
)
def test_simple_commands_are_run_and_others_left_to_the_image(command, outcome) -> None:
    """A few shell commands are imitated; anything else is not guessed."""
    assert outcome_of(command, {"B": "2", "A": "1"}) == outcome
