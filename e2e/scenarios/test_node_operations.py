"""What an operator does to nodes: drain, delete the Node, stop the kubelet, add a machine. The book follows."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from clusters.api_client import ApiError
from clusters.node_operations import cordon, delete_node, drain
from clusters.provider import Cluster, NodeSpec
from clusters.providers import Choices, make_cluster
from clusters.resources import NODES
from clusters.targets import Target
from clusters.waiting import eventually
from e2e import spec
from e2e.builders import gpu_pod
from e2e.observer import Observer


@pytest_asyncio.fixture(loop_scope="session")
async def pair(request: pytest.FixtureRequest, target: Target, choices: Choices) -> AsyncIterator[Observer]:
    """Two nodes that the case may change for good."""
    nodes = [NodeSpec("left", "t4x1", "535.104"), NodeSpec("right", "t4x2", "535.104")]
    cluster = make_cluster(request.config.getoption("--cluster"), nodes, target, choices)
    await cluster.start()
    try:
        await cluster.api.ensure_namespace("pair")
        observer = Observer(cluster, "pair")
        await eventually(observer.accounts, lambda names: "default" in names, "the namespace has its ServiceAccount")
        try:
            yield observer
        finally:
            await observer.close()
    finally:
        await cluster.stop()


async def memory(cluster: Cluster, node: str) -> str:
    """What the node can give, or why it says nothing."""
    try:
        status: dict[str, Any] = (await cluster.api.get(NODES, node))["status"]
    except ApiError as error:
        return error.reason
    return str((status.get("allocatable") or {}).get(spec.RESOURCE_MEMORY, "0"))


async def test_nodes_come_and_go_and_the_book_follows(pair: Observer) -> None:
    """Drained, its Node deleted and made anew by its kubelet, beside a machine that joins: each pod keeps to its card."""
    cluster = pair.cluster
    await pair.create(gpu_pod("moves", 3, node="left"), gpu_pod("stays", 5, node="right"))
    await pair.running("moves", "stays")

    assert await drain(cluster.api, "left") == ["pair/moves"]
    await pair.create(gpu_pod("waits", 1, node="left"))
    await pair.waits_because("waits", "unschedulable")
    await cordon(cluster.api, "left", on=False)
    await pair.running("waits")

    await cluster.kill("kubelet", "left")
    await delete_node(cluster.api, "left")
    await eventually(lambda: memory(cluster, "left"), lambda seen: seen == "NotFound", "the Node is gone")
    await cluster.launch("kubelet", "left")
    units = await eventually(lambda: memory(cluster, "left"), lambda seen: seen not in ("0", "NotFound"), "it is back")

    await cluster.add_node(NodeSpec("late", "gtx1080tix1", "418.87"))
    await pair.create(gpu_pod("again", 14, node="left"), gpu_pod("new", 10, node="late"))
    await pair.running("again", "new", "stays")
    await pair.check_right_cards("again", "new", "stays")
    await pair.check_books()
    assert units == "15"
