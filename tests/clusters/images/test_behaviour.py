"""The simulated behaviour of container images."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from clusters.images.behaviour import Behaviour, BehaviourError, Behaviours, names_of
from clusters.provider import ClusterError

FOLDER = Path(__file__).parents[3] / "clusters" / "images"


@pytest.mark.parametrize(
    "image",
    [
        "cheyang/gpu-player:v2",
        "cheyang/gpu-player",
        "docker.io/cheyang/gpu-player:v2",
        "localhost:5000/cheyang/gpu-player:v1",
        "cheyang/gpu-player@sha256:0123",
    ],
)
def test_the_player_holds_what_the_demo_held(image) -> None:
    """The player's image has its behaviour with or without tag, digest and registry."""
    assert Behaviours.load().of(image).holds_mib == 1253


def test_an_unknown_image_runs_until_it_is_stopped() -> None:
    """An unknown image has the default behaviour."""
    assert Behaviours.load().of("example.com/who/knows:7") == Behaviour()


def test_a_behaviour_with_a_tag_wins_over_one_without() -> None:
    """A registry before the name does not matter."""
    behaviours = Behaviours([Behaviour(images=("a/b",), does="any"), Behaviour(images=("a/b:v1",), does="v1")])

    assert [behaviours.of(image).does for image in ("a/b:v1", "r.io/a/b:v1", "a/b:v2")] == ["v1", "v1", "any"]


def test_a_namespace_is_no_registry() -> None:
    """The name without its namespace is not tried."""
    assert "gpu-player" not in names_of("cheyang/gpu-player:v2")


def test_one_image_has_one_behaviour() -> None:
    """A second one is an error."""
    with pytest.raises(BehaviourError, match="two behaviours"):
        Behaviours([Behaviour(images=("a",)), Behaviour(images=("a",))])


def test_a_command_replaces_what_the_image_does() -> None:
    """A pod with a command of its own holds no memory."""
    behaviour = Behaviours.load().of("cheyang/gpu-player:v2", ("sh", "-c", "echo hi; exit 3"))

    assert (behaviour.holds_mib, behaviour.prints, behaviour.exits_after, behaviour.exit_code) == (0, ("hi",), 0, 3)


def test_variables_change_single_numbers() -> None:
    """The rest stays as the image has it."""
    environment = {"SIMULATED_HOLDS_MIB": "77", "SIMULATED_EXITS_AFTER": "0.5"}
    behaviour = Behaviours.load().of("cheyang/gpu-player:v2", (), environment)

    assert (behaviour.holds_mib, behaviour.exits_after, behaviour.process) == (77, 0.5, "python")


def test_a_variable_that_is_no_number_is_refused() -> None:
    """The error has the name and the text."""
    with pytest.raises(BehaviourError, match="SIMULATED_EXIT_CODE='many' is not a number"):
        Behaviours.load().of("x", (), {"SIMULATED_EXIT_CODE": "many"})


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("does: nothing", "missing required field `images`"),
        ("images: []", "length >= 1"),
        ("- a", "Expected `object`"),
        ("images: [a]\nhold_mib: 3", "unknown field `hold_mib`"),
        ("images: a", r"\$.images"),
        ("{images: [a], prints_after: 3}", r"\$.prints_after"),
        ("{images: [a], prints_after: [soon]}", r"\$.prints_after"),
        ("images: [a]\nholds_mib: many", r"\$.holds_mib"),
    ],
    ids=["no images", "empty", "no map", "unknown field", "no list", "no list of times", "no times", "no number"],
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
