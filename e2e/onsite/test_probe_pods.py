"""Promises of e2e.onsite.probe_pods."""

from __future__ import annotations

from typing import Any

from clusters.embedded.scheduling.node_match import accepts_node
from e2e.onsite.card_room import NodeRoom, Room
from e2e.onsite.probe_pods import Carrier, probe_pod


def node(name: str, **labels: str) -> dict[str, Any]:
    """A node with these labels."""
    return {"metadata": {"name": name, "labels": labels}}


def test_a_pod_is_pinned_by_the_name_of_its_node() -> None:
    """Labels may differ from the name, be missing, or be the same on two nodes."""
    pod = probe_pod("p", NodeRoom("a", 1024, Room(9), ()), Carrier("python:3"), [1], "look")

    assert accepts_node(pod, node("a"))
    assert accepts_node(pod, node("a", **{"kubernetes.io/hostname": "other"}))
    assert not accepts_node(pod, node("b", **{"kubernetes.io/hostname": "a"}))
