"""The nodes of a marker become those of a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusters.provider import ClusterError
from e2e.pytest_plugin.gpu_clusters import box_of, node_specs

MODELS = ("t4", "gtx1080ti", "rtx4090", "a10")


def test_an_unknown_card_is_refused_with_those_that_there_are() -> None:
    """A misspelt model names no box."""
    with pytest.raises(ClusterError, match=r"'b200x2' is no box.*models: .*gtx1080ti"):
        box_of("b200x2", MODELS)


def test_a_mapping_says_more_of_a_node(tmp_path: Path) -> None:
    """Its name, its driver, its plugin's flags; a node without a box has no cards."""
    first, second = node_specs(({"box": "t4x1", "driver": "535", "name": "left"}, {"cpu": "4"}), tmp_path)

    assert (first.name, first.driver) == ("left", "535")
    assert (second.name, second.box, second.cpu) == ("node2", "none", "4")


def test_an_unknown_field_of_a_node_is_refused(tmp_path: Path) -> None:
    """With the number of the node."""
    with pytest.raises(ClusterError, match=r"node 1 is .*'cards'"):
        node_specs(({"cards": 2},), tmp_path)
