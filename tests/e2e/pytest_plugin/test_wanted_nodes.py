"""The nodes of a marker become those of a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusters.provider import ClusterError
from e2e.pytest_plugin.wanted_nodes import box_of, node_specs
from fake_nvml.box import Box

MODELS = ("t4", "gtx1080ti", "rtx4090", "a10")


def test_without_a_marker_there_is_one_node_with_two_cards(tmp_path: Path) -> None:
    """A test that names no nodes gets two T4."""
    (node,) = node_specs((), tmp_path)

    assert (node.name, node.box) == ("node1", "t4x2")


@pytest.mark.parametrize(
    ("text", "model", "count"), [("1080ti", "gtx1080ti", 1), ("4090x2", "rtx4090", 2), ("a10x16", "a10", 16)]
)
def test_a_model_and_a_count_name_a_box(text: str, model: str, count: int) -> None:
    """The letters before a model's number may be left out."""
    assert box_of(text, MODELS)["cards"] == [{"model": model, "count": count}]


def test_an_unknown_card_is_refused_with_those_that_there_are() -> None:
    """A misspelt model names no box."""
    with pytest.raises(ClusterError, match=r"'b200x2' is no box.*models: .*gtx1080ti"):
        box_of("b200x2", MODELS)


def test_a_named_box_can_be_loaded(tmp_path: Path) -> None:
    """The file of such a box is one of fake_nvml's."""
    (node,) = node_specs(("a10x3",), tmp_path)

    assert [card.model.id for card in Box.load(node.box, seed=node.name).cards] == ["a10"] * 3


def test_a_mapping_says_more_of_a_node(tmp_path: Path) -> None:
    """Its name, its driver, its plugin's flags; a node without a box has no cards."""
    first, second = node_specs(({"box": "t4x1", "driver": "535", "name": "left"}, {"cpu": "4"}), tmp_path)

    assert (first.name, first.driver) == ("left", "535")
    assert (second.name, second.box, second.cpu) == ("node2", "none", "4")


def test_an_unknown_field_of_a_node_is_refused(tmp_path: Path) -> None:
    """With the number of the node."""
    with pytest.raises(ClusterError, match=r"node 1 is .*'cards'"):
        node_specs(({"cards": 2},), tmp_path)
