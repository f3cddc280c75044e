"""The simulated behaviour of container images, and the shell commands that it runs."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from clusters.images.behaviour import Behaviour, Behaviours, Outcome, outcome_of
from clusters.provider import ClusterError

FOLDER = Path(__file__).parents[3] / "clusters" / "images"


@pytest.mark.parametrize(
    "image",
    [
        "cheyang/gpu-player",
        "localhost:5000/cheyang/gpu-player:v1",
        "cheyang/gpu-player@sha256:0123",
    ],
)
def test_the_player_holds_what_the_demo_held(image) -> None:
    """The player's image has its behaviour with or without tag, digest and registry."""
    assert Behaviours.load().of(image).holds_mib == 1253


def test_a_behaviour_with_a_tag_wins_over_one_without() -> None:
    """A registry before the name does not matter."""
    behaviours = Behaviours([Behaviour(images=("a/b",), does="any"), Behaviour(images=("a/b:v1",), does="v1")])

    assert [behaviours.of(image).does for image in ("a/b:v1", "r.io/a/b:v1", "a/b:v2")] == ["v1", "v1", "any"]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("does: nothing", "missing required field `images`"),
        ("images: []", "length >= 1"),
        ("images: [a]\nhold_mib: 3", "unknown field `hold_mib`"),
        ("{images: [a], prints_after: [soon]}", r"\$.prints_after"),
    ],
    ids=["no images", "empty", "unknown field", "no times"],
)
def test_a_wrong_file_is_refused_with_its_name(tmp_path, content, text) -> None:
    """The error also names the fault."""
    path = tmp_path / "wrong.yaml"
    path.write_text(content)

    with pytest.raises(ClusterError, match=f"{path}: not a behaviour: .*{text}"):
        Behaviours.load(tmp_path)


def test_the_readme_lists_every_behaviour() -> None:
    """The table and the files name the same images."""
    table = (FOLDER / "README.md").read_text()
    behaviours = Behaviours.load()
    for line in table.splitlines():
        if line.startswith("| `"):
            image, does = (cell.strip() for cell in line.strip("|").split("|"))
            assert behaviours.of(image.strip("`")).does == does
    for path in FOLDER.glob("*.yaml"):
        assert any(f"| `{image}` |" in table for image in yaml.safe_load(path.read_text())["images"])


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
