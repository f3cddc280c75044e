"""Taints that the API server and the controllers put on nodes: no pod goes to a node that cannot run it."""

from __future__ import annotations

from typing import Any

import pytest

from clusters.api.waiting import eventually
from e2e.parity.parity_objects import STRATEGIC, got, made, node_of, patched
from e2e.parity.sides import Both, Side

PATH = "/api/v1/nodes"
PREFIX = "node.kubernetes.io/"


async def until_tainted(side: Side, name: str, *keys: str) -> list[dict[str, Any]]:
    """Wait until the node has just these taints; the taints."""

    async def look() -> list[dict[str, Any]]:
        found = (await got(side, f"{PATH}/{name}"))["spec"].get("taints", [])
        return sorted(found, key=lambda taint: str(taint["key"]))

    return await eventually(look, lambda seen: [one["key"] for one in seen] == list(keys), f"{name} has taints {keys}")


async def new_node(side: Side, *there: dict[str, str]) -> str:
    """A node without a kubelet; its name."""
    name = node_of(side)
    await made(side, PATH, {"metadata": {"name": name}, "spec": {"taints": list(there)}})
    return name


async def tell(side: Side, name: str, kind: str, status: str) -> None:
    """Say of the node what its kubelet would say."""
    told = {"type": kind, "status": status, "lastHeartbeatTime": "2026-01-01T00:00:00Z"}
    patch = {"status": {"conditions": [{**told, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}
    answer = await patched(side, f"{PATH}/{name}/status", patch, STRATEGIC)
    assert answer.code == 200, answer.body


@pytest.mark.promise("G1-17")
@pytest.mark.parametrize(
    ("kind", "key"),
    [
        ("Ready", "not-ready"),
        ("MemoryPressure", "memory-pressure"),
        ("DiskPressure", "disk-pressure"),
        ("PIDPressure", "pid-pressure"),
        ("NetworkUnavailable", "network-unavailable"),
    ],
)
async def test_a_node_in_need_is_tainted(both: Both, kind: str, key: str) -> None:
    """A Node has one taint for each bad condition, with the time of its addition, and none if it is ready."""

    async def observe(side: Side) -> Any:
        name = await new_node(side)
        await tell(side, name, "Ready", "True")
        ready = await until_tainted(side, name)
        await tell(side, name, kind, "False" if kind == "Ready" else "True")
        seen = [ready, await until_tainted(side, name, PREFIX + key)]
        await side.call("DELETE", f"{PATH}/{name}")
        return seen

    await both.same(observe)


@pytest.mark.promise("G1-17")
async def test_a_cordoned_node_is_tainted_until_it_is_not(both: Both) -> None:
    """A cordoned Node has a taint until it is uncordoned, and taints of others stay."""

    async def observe(side: Side) -> Any:
        name = await new_node(side, {"key": "example.com/mine", "value": "x", "effect": "NoExecute"})
        await tell(side, name, "Ready", "True")
        await patched(side, f"{PATH}/{name}", {"spec": {"unschedulable": True}})
        cordoned = await until_tainted(side, name, "example.com/mine", f"{PREFIX}unschedulable")
        await patched(side, f"{PATH}/{name}", {"spec": {"unschedulable": None}})
        free = await until_tainted(side, name, "example.com/mine")
        await side.call("DELETE", f"{PATH}/{name}")
        return [cordoned, free]

    await both.same(observe)
