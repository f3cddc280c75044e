"""Nodes and their status: what is filled in, what is refused, what a device plugin's patch does."""

from __future__ import annotations

from typing import Any, Final

import pytest

from e2e.parity.parity_objects import MEMORY
from e2e.parity.parity_requests import Ask, compare, delete, get, json_patch, merge, post, strategic
from e2e.parity.sides import Both

_TIME: Final = "2026-01-01T00:00:00Z"
_NODE: Final = "nodes/${ns}"
_STATUS: Final = f"{_NODE}/status"
_COUNT: Final = "/status/capacity/aliyun.com~1gpu-count"


def node(status: Any = None, **spec: Any) -> list[Ask]:
    """Requests that make the node of the case, without the taint that a new one gets."""
    body = {"metadata": {"name": "${ns}"}, "spec": spec, "status": status or {}}
    return [post("nodes", body), merge(_NODE, {"spec": {"taints": spec.get("taints")}})]


@pytest.mark.parametrize(
    ("spec", "status"),
    [
        ({}, {}),
        ({"unschedulable": True}, {}),
        ({"taints": [{"key": "a", "effect": "NoSchedule"}, {"key": "b", "value": "c", "effect": "NoExecute"}]}, {}),
        ({}, {"capacity": {"cpu": "8000m", "memory": "32768Mi", MEMORY: "81920"}}),
        ({}, {"capacity": {"cpu": "8"}, "allocatable": {"cpu": "7500m"}}),
        ({}, {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": _TIME}]}),
    ],
)
async def test_what_is_filled_into_a_node(bare: Both, spec: Any, status: Any) -> None:
    """A created Node is equal on both sides, including the status that it was created with."""
    await compare(bare, *node(status, **spec), get(_NODE), delete(_NODE))


@pytest.mark.parametrize(
    "body",
    [
        {"metadata": {"name": "Bad_Name"}},
        {"spec": {"taints": [{"key": "a"}]}},
        {"spec": {"taints": [{"key": "a", "effect": "Never"}]}},
        {"spec": {"taints": [{"key": "a", "effect": "NoSchedule", "value": each} for each in "bc"]}},
        {"status": {"capacity": {MEMORY: "1.5"}}},
        {"status": {"capacity": {MEMORY: "-1"}}},
        {"status": {"allocatable": {"cpu": "many"}}},
    ],
)
async def test_a_node_that_makes_no_sense(bare: Both, body: dict[str, Any]) -> None:
    """A senseless Node is refused with the path of the wrong field."""
    sent = {**body, "metadata": {"name": "${ns}", **body.get("metadata", {})}}
    await compare(bare, post("nodes", sent, None), delete(_NODE, None))


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
