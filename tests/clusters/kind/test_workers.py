"""Promises of clusters.kind.workers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from clusters.kind.product import PLUGIN_LABEL, plugin_sets
from clusters.kind.workers import Workers
from clusters.provider import ClusterError, NodeSpec
from clusters.simulated_node import environment_of_programs

NODES = [NodeSpec("a1", "t4x1", "535.104", labels={"zone": "z"}), NodeSpec("cpu")]


def workers(folder: Path) -> Workers:
    """Workers of cluster c; nothing runs."""
    return Workers("c", folder, environment_of_programs(dict(os.environ)), plugin_sets(NODES))


def test_cards_lie_where_pods_and_this_machine_find_them(tmp_path: Path) -> None:
    """A state file in the folder that is handed to the node; UUIDs follow from the node's name."""
    first, second = workers(tmp_path / "1"), workers(tmp_path / "2")
    for each in (first, second):
        each.prepare(NODES)

    (card,) = first.simulated("a1").cards()
    assert (tmp_path / "1" / "a1" / "nvml" / "state").is_file()
    assert card["uuid"] == second.simulated("a1").cards()[0]["uuid"]
    assert first.simulated("cpu").cards() == []


def test_labels_place_the_plugin_on_nodes_with_cards_only(tmp_path: Path) -> None:
    """The manifests' label, ours with the name of the DaemonSet, and the node's own."""
    a1, cpu = workers(tmp_path).prepare(NODES)

    assert a1.labels == {"gpushare": "true", PLUGIN_LABEL: "gpushare-device-plugin-ds", "zone": "z"}
    assert cpu.labels == {}


def test_nodes_are_found_by_name(tmp_path: Path) -> None:
    """The control plane has a container too, and no cards; an unknown name lists the known."""
    found = workers(tmp_path)
    found.prepare(NODES)

    assert [found.container(name).container for name in ("a1", "cpu", "c-control-plane")] == [
        "c-worker",
        "c-worker2",
        "c-control-plane",
    ]
    with pytest.raises(ClusterError, match="a1"):
        found.container("moon")
    with pytest.raises(ClusterError, match="moon"):
        found.simulated("moon")


def test_a_name_that_is_no_label_is_refused(tmp_path: Path) -> None:
    """A real kubelet could not register the node; the error has the limit, and the providers without it."""
    found = workers(tmp_path)
    found.prepare([NodeSpec("a" * 63)])
    with pytest.raises(ClusterError, match="64 characters; on kind a node's name has 63 at most.*embedded"):
        found.prepare([NodeSpec("a" * 64)])


def test_a_box_that_is_not_there_is_named(tmp_path: Path) -> None:
    """The error for an unknown box names the node and the box."""
    with pytest.raises(ClusterError, match="node a: .*nonsense"):
        workers(tmp_path).prepare([NodeSpec("a", "nonsense")])
