"""Nodes: what is filled in, what is refused, what a device plugin's patch does, and the taints by their conditions."""

from __future__ import annotations

from typing import Any, Final

import pytest

from clusters.api.waiting import eventually
from e2e.parity.parity_objects import MEMORY, STRATEGIC, got, made, node_of, patched
from e2e.parity.parity_requests import Ask, Cases, compare, delete, each, get, json_patch, merge, post, strategic
from e2e.parity.sides import Both, Side

_TIME: Final = "2026-01-01T00:00:00Z"
_NODE: Final = "nodes/${ns}"
_STATUS: Final = f"{_NODE}/status"
_COUNT: Final = "/status/capacity/aliyun.com~1gpu-count"


def node(status: Any = None, **spec: Any) -> list[Ask]:
    """Requests that make the node of the case, without the taint that a new one gets."""
    body = {"metadata": {"name": "${ns}"}, "spec": spec, "status": status or {}}
    return [post("nodes", body), merge(_NODE, {"spec": {"taints": spec.get("taints")}})]


_FILLED: Final[list[tuple[Any, Any]]] = [
    ({}, {}),
    ({"unschedulable": True}, {}),
    ({"taints": [{"key": "a", "effect": "NoSchedule"}, {"key": "b", "value": "c", "effect": "NoExecute"}]}, {}),
    ({}, {"capacity": {"cpu": "8000m", "memory": "32768Mi", MEMORY: "81920"}}),
    ({}, {"capacity": {"cpu": "8"}, "allocatable": {"cpu": "7500m"}}),
    ({}, {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": _TIME}]}),
]
_WRONG: Final[list[dict[str, Any]]] = [
    {"metadata": {"name": "Bad_Name"}},
    {"spec": {"taints": [{"key": "a"}]}},
    {"spec": {"taints": [{"key": "a", "effect": "Never"}]}},
    {"spec": {"taints": [{"key": "a", "effect": "NoSchedule", "value": one} for one in "bc"]}},
    {"status": {"capacity": {MEMORY: "1.5"}}},
    {"status": {"capacity": {MEMORY: "-1"}}},
    {"status": {"allocatable": {"cpu": "many"}}},
]
_CASES: Cases = {
    f"filled in {at}": [*node(status, **spec), get(_NODE), delete(_NODE)] for at, (spec, status) in enumerate(_FILLED)
}
_CASES |= {
    f"senseless {at}": [post("nodes", {"metadata": {"name": "${ns}"}, **body}, None), delete(_NODE, None)]
    for at, body in enumerate(_WRONG)
}


@each(_CASES)
async def test_what_is_filled_into_a_node(bare: Both, asks: list[Ask]) -> None:
    """A created Node is equal on both sides with its status, and a senseless one refused with the path of the wrong field."""
    await compare(bare, *asks)


@pytest.mark.promise("G1-10")
async def test_the_status_of_a_node_is_written_apart(bare: Both) -> None:
    """A Node's status is written through /status alone, and its annotations and labels through both paths."""
    change = {
        "metadata": {"annotations": {"a": "1"}, "labels": {"l": "1"}},
        "spec": {"unschedulable": True},
        "status": {"capacity": {MEMORY: "5"}},
    }
    await compare(
        bare,
        *node(),
        merge(_STATUS, change, shows={"status.capacity": {MEMORY: "5"}, "spec.unschedulable": None}),
        merge(_NODE, change, shows={"spec.unschedulable": True}),
        merge(_STATUS, {**change, "metadata": {"annotations": {"b": "2"}}}),
        delete(_NODE),
    )


@pytest.mark.promise("API-007", "G1-10")
async def test_what_a_device_plugin_patches(bare: Both) -> None:
    """A resource is added, changed and taken away, in each type of patch; other keys stay."""
    after = {"cpu": "8", "memory": "1Gi", "aliyun.com/gpu-count": "2"}
    await compare(
        bare,
        *node({"capacity": {"cpu": "8", "memory": "1Gi"}}),
        json_patch(_STATUS, {"op": "add", "path": _COUNT, "value": "2"}, shows={"status.capacity": after}),
        strategic(_STATUS, {"status": {"capacity": {MEMORY: "163840"}, "allocatable": {MEMORY: "163840"}}}),
        strategic(_STATUS, {"status": {"capacity": {MEMORY: None}, "allocatable": {MEMORY: "0"}}}),
        json_patch(_STATUS, {"op": "remove", "path": _COUNT}),
        merge(_STATUS, {"status": {"capacity": None}}),
        json_patch(_STATUS, {"op": "add", "path": _COUNT, "value": 2}, code=None),
        delete(_NODE),
    )


_MINE: Final = {"key": "example.com/mine", "value": "x", "effect": "NoExecute"}
# A condition and its bad status, with the end of the taint's key; or a cordon.
_NEEDS: Final = {
    "not-ready": ("Ready", "False"),
    "memory-pressure": ("MemoryPressure", "True"),
    "disk-pressure": ("DiskPressure", "True"),
    "pid-pressure": ("PIDPressure", "True"),
    "network-unavailable": ("NetworkUnavailable", "True"),
    "unschedulable": None,
}


@pytest.mark.promise("G1-17")
@pytest.mark.parametrize("end", _NEEDS)
async def test_a_node_in_need_is_tainted(both: Both, end: str) -> None:
    """A Node has a taint for a bad condition or a cordon, with the time of its addition, and those of others stay."""

    async def observe(side: Side) -> Any:
        path = f"/api/v1/nodes/{node_of(side)}"
        await made(side, "/api/v1/nodes", {"metadata": {"name": node_of(side)}, "spec": {"taints": [_MINE]}})

        async def tainted(kind: str, status: str, *ends: str) -> list[Any]:
            times = dict.fromkeys(("lastHeartbeatTime", "lastTransitionTime"), _TIME)
            change: Any = {"status": {"conditions": [{"type": kind, "status": status, **times}]}}
            if kind:
                await patched(side, f"{path}/status", change, STRATEGIC)
            else:
                await patched(side, path, {"spec": {"unschedulable": True}})
            keys = [_MINE["key"], *(f"node.kubernetes.io/{one}" for one in ends)]

            async def look() -> list[Any]:
                return sorted((await got(side, path))["spec"].get("taints", []), key=lambda taint: str(taint["key"]))

            return await eventually(look, lambda seen: [one["key"] for one in seen] == keys, f"taints {keys}")

        seen = [await tainted("Ready", "True"), await tainted(*(_NEEDS[end] or ("", "")), end)]
        await side.call("DELETE", path)
        return seen

    await both.same(observe)
