"""The shell commands that a simulated image runs."""

from __future__ import annotations

import pytest

from clusters.images.image_command import Outcome, outcome_of


@pytest.mark.parametrize(
    ("command", "outcome"),
    [
        (("true",), Outcome()),
        (("false",), Outcome(code=1)),
        (("sleep", "5"), Outcome(after=5)),
        (("sleep", "1.5m"), Outcome(after=90)),
        (("sleep", "infinity"), Outcome(after=None)),
        (("echo", "a", "b"), Outcome(prints=("a b",))),
        (("env",), Outcome(prints=("A=1", "B=2"))),
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


def test_what_is_printed_after_a_sleep_comes_after_it() -> None:
    """A log that is followed grows as that of a real container."""
    outcome = outcome_of(["sh", "-c", "echo a; echo b; sleep 2; echo c; sleep 1; echo d"], {})

    assert outcome is not None
    assert (outcome.prints, outcome.prints_after, outcome.after) == (("a", "b", "c", "d"), (0, 0, 2, 3), 3)
