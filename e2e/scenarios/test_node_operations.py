"""An operator's work on nodes: drain, delete the Node, stop the kubelet, add a machine. The book follows."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

import pytest
import pytest_asyncio

from clusters.api.api_client import ApiError
from clusters.api.node_operations import cordon, delete_node, drain
from clusters.api.resources import NODES
from clusters.api.waiting import eventually
from clusters.provider import Cluster, NodeSpec
from e2e import spec
from e2e.builders import gpu_pod
from e2e.observer import Observer, OwnCluster, observing

# Nodes of the session's clusters, with one card and with two.
LEFT: Final = "a1"
RIGHT: Final = "a2"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def spoilt(shared: Cluster | None, own: OwnCluster) -> AsyncIterator[Cluster]:
    """Two nodes that the cases may change for good: they are the last ones of their process."""
    if shared is not None:
        yield shared
        return
    nodes = [NodeSpec(LEFT, "t4x1", "535.104"), NodeSpec(RIGHT, "t4x2", "535.104")]
    async with own(nodes) as cluster:
        yield cluster


@pytest_asyncio.fixture(loop_scope="session")
async def pair(spoilt: Cluster) -> AsyncIterator[Observer]:
    """The case's namespace."""
    async with observing(spoilt, "pair") as observer:
        yield observer


async def memory(cluster: Cluster, node: str) -> str:
    """The node's allocatable, or the reason why it has none."""
    try:
        status: dict[str, Any] = (await cluster.api.get(NODES, node))["status"]
    except ApiError as error:
        return error.reason
    return str((status.get("allocatable") or {}).get(spec.RESOURCE_MEMORY, "0"))


async def test_nodes_come_and_go_and_the_book_follows(pair: Observer) -> None:
    """A node is drained, and its Node deleted and made again by its kubelet: each pod keeps to its card."""
    cluster = pair.cluster
    before = await memory(cluster, LEFT)
    await pair.run(gpu_pod("moves", 3, node=LEFT), gpu_pod("stays", 5, node=RIGHT))

    assert await drain(cluster.api, LEFT) == ["pair/moves"]
    await pair.create(gpu_pod("waits", 1, node=LEFT))
    await pair.waits_because("waits", "unschedulable")
    await cordon(cluster.api, LEFT, on=False)
    await pair.running("waits")

    await cluster.kill("kubelet", LEFT)
    await delete_node(cluster.api, LEFT)
    await eventually(lambda: memory(cluster, LEFT), lambda seen: seen == "NotFound", "the Node is gone")
    await cluster.launch("kubelet", LEFT)
    units = await eventually(lambda: memory(cluster, LEFT), lambda seen: seen not in ("0", "NotFound"), "it is back")

    await pair.create(gpu_pod("again", 14, node=LEFT))
    await pair.running("again", "stays")
    await pair.check_all("again", "stays")
    assert units == before


@pytest.mark.stand_in_only("kind has no verb by which a machine could join")
async def test_a_machine_that_joins_gets_pods(pair: Observer) -> None:
    """A pod runs on a card of a node that came after the extender's start."""
    await pair.cluster.add_node(NodeSpec("late", "gtx1080tix1", "418.87"))
    await pair.run(gpu_pod("new", 10, node="late"))
    await pair.check_all("new")
