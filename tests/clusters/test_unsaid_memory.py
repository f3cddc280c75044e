"""Nodes with cards that do not answer everything: the cluster starts, and the device plugin offers or reports each card."""

from __future__ import annotations

import json
import os
from typing import Final

from clusters.api.resources import EVENTS, NODES
from clusters.api.waiting import eventually
from clusters.provider import NodeSpec
from clusters.providers import Choices, make_cluster
from clusters.targets import load_target

# As long as Kubernetes takes a node's name; certificates, labels and paths of sockets are shorter.
LONG: Final = ".".join(["gpu-" + "a" * 59] * 4)[:253]


async def test_a_cluster_of_cards_that_answer_less_comes_up() -> None:
    """WSL2 and a vGPU guest are shared, on a node with the longest name too; a card that reports no memory is not shared, and an
    event on its node has the reason.
    """
    nodes = [NodeSpec(LONG, "wsl2"), *(NodeSpec(name, name) for name in ("vgpu", "gb10"))]
    cluster = make_cluster("embedded", nodes, load_target("gpushare"), Choices(dict(os.environ)))
    await cluster.start()
    try:
        found = {node.name: await cluster.api.get(NODES, node.name) for node in nodes}
        cards = {
            name: json.loads(node["metadata"]["annotations"]["aliyun.com/gpushare-cards"])["cards"]
            for name, node in found.items()
        }

        async def reasons() -> set[str]:
            events = await cluster.api.list(EVENTS)
            return {event["reason"] for event in events if event["involvedObject"]["name"] == "gb10"}

        assert [len(cards[name]) for name in (LONG, "vgpu", "gb10")] == [1, 1, 0]
        assert [card["healthy"] for name in (LONG, "vgpu") for card in cards[name]] == [True, True]
        assert len(found[LONG]["metadata"]["labels"]["kubernetes.io/hostname"]) == 63
        await eventually(reasons, lambda seen: "GPUShareCardUnreadable" in seen, "the card is reported")
    finally:
        await cluster.stop()
