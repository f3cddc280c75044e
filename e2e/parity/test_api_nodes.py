"""Nodes and their status: what is filled in, what is refused, what a device plugin's patch does."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.parity.parity_objects import JSON_PATCH, MEMORY, MERGE, STRATEGIC, got, made, node_of, patched, short
from e2e.parity.sides import Both, Side

_TIME = "2026-01-01T00:00:00Z"


async def node(side: Side, name: str = "", *, status: Any = None, **spec: Any) -> str:
    """A node without the taint that a new one gets; its path."""
    full = node_of(side, name)
    await made(side, "/api/v1/nodes", {"metadata": {"name": full}, "spec": spec, "status": status or {}})
    await patched(side, f"/api/v1/nodes/{full}", {"spec": {"taints": spec.get("taints")}})
    return f"/api/v1/nodes/{full}"


@pytest.mark.parametrize(
    ("spec", "status"),
    [
        ({}, {}),
        ({"podCIDR": "10.0.0.0/24", "providerID": "x://1"}, {}),
        ({"unschedulable": True}, {}),
        ({"taints": [{"key": "a", "effect": "NoSchedule"}, {"key": "b", "value": "c", "effect": "NoExecute"}]}, {}),
        ({}, {"capacity": {"cpu": "8000m", "memory": "32768Mi", MEMORY: "81920"}}),
        ({}, {"capacity": {"cpu": "8"}, "allocatable": {"cpu": "7500m"}}),
        ({}, {"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}], "nodeInfo": {"kubeletVersion": "v1.36.3"}}),
        ({}, {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": _TIME}]}),
        ({}, {"images": [{"names": ["a:1"], "sizeBytes": 5}], "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}}}),
    ],
)
async def test_what_is_filled_into_a_node(bare: Both, spec: Any, status: Any) -> None:
    """G1: a node is equal on both sides, whole; its status is taken when it is created."""

    async def observe(side: Side) -> Any:
        path = await node(side, status=status, **spec)
        found = await got(side, path)
        await side.call("DELETE", path)
        return found

    await bare.same(observe)


@pytest.mark.parametrize(
    "body",
    [
        {"metadata": {"name": "Bad_Name"}},
        {"spec": {"taints": [{"key": "a"}]}},
        {"spec": {"taints": [{"key": "", "effect": "NoSchedule"}]}},
        {"spec": {"taints": [{"key": "a", "effect": "Never"}]}},
        {
            "spec": {
                "taints": [{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoSchedule", "value": "b"}]
            }
        },
        {"spec": {"taints": [{"key": "bad key", "effect": "NoSchedule"}]}},
        {"status": {"capacity": {MEMORY: "1.5"}}},
        {"status": {"capacity": {MEMORY: "-1"}}},
        {"status": {"capacity": {"bad name/x": "1"}}},
        {"status": {"capacity": {"gpu": "1"}}},
        {"status": {"allocatable": {"cpu": "many"}}},
        {"metadata": {"labels": {"a": "bad value!"}}},
    ],
)
async def test_a_node_that_makes_no_sense(bare: Both, body: dict[str, Any]) -> None:
    """D3: refused with the path of the field."""

    async def observe(side: Side) -> Any:
        name = node_of(side)
        sent = {**body, "metadata": {"name": name, **body.get("metadata", {})}}
        answer = await side.call("POST", "/api/v1/nodes", body=sent)
        await side.call("DELETE", f"/api/v1/nodes/{name}")
        return [answer.code, answer.body if answer.code == 422 else None]

    await bare.same(observe)


@pytest.mark.promise("G1-10")
async def test_the_status_of_a_node_is_written_apart(bare: Both) -> None:
    """D3: a patch of the node cannot change it; annotations and labels go through both."""

    async def observe(side: Side) -> Any:
        path = await node(side)
        change = {
            "metadata": {"annotations": {"a": "1"}, "labels": {"l": "1"}},
            "spec": {"unschedulable": True},
            "status": {"capacity": {MEMORY: "5"}},
        }
        found = [short(await patched(side, path + "/status", change)), short(await patched(side, path, change))]
        change["metadata"] = {"annotations": {"b": "2"}}
        found.append(short(await patched(side, path + "/status", change)))
        await side.call("DELETE", path)
        return found

    first, second, _ = await bare.same(observe)
    assert (first[1]["status"]["capacity"], first[1]["spec"].get("unschedulable")) == ({MEMORY: "5"}, None)
    assert second[1]["spec"]["unschedulable"] is True


@pytest.mark.promise("API-007", "G1-10")
async def test_what_a_device_plugin_patches(bare: Both) -> None:
    """A resource is added, changed and taken away, in each type of patch; other keys stay."""

    async def observe(side: Side) -> Any:
        path = await node(side, status={"capacity": {"cpu": "8", "memory": "1Gi"}}) + "/status"
        found = []
        for content_type, patch in (
            (JSON_PATCH, [{"op": "add", "path": "/status/capacity/aliyun.com~1gpu-count", "value": "2"}]),
            (STRATEGIC, {"status": {"capacity": {MEMORY: "163840"}, "allocatable": {MEMORY: "163840"}}}),
            (STRATEGIC, {"status": {"capacity": {MEMORY: None}, "allocatable": {MEMORY: "0"}}}),
            (JSON_PATCH, [{"op": "remove", "path": "/status/capacity/aliyun.com~1gpu-count"}]),
            (MERGE, {"status": {"capacity": None}}),
            (JSON_PATCH, [{"op": "add", "path": "/status/capacity/aliyun.com~1gpu-count", "value": 2}]),
        ):
            code, body = short(await patched(side, path, patch, content_type))
            found.append([code, body.get("status") if code == 200 else body.get("reason")])
        await side.call("DELETE", path.removesuffix("/status"))
        return found

    seen = await bare.same(observe)
    assert seen[0][1]["capacity"] == {"cpu": "8", "memory": "1Gi", "aliyun.com/gpu-count": "2"}


async def test_conditions_of_a_node_are_merged(bare: Both) -> None:
    """D3: by their type in a strategic patch, as kubelets send them."""

    async def observe(side: Side) -> Any:
        path = await node(side) + "/status"
        found = []
        for conditions in (
            [
                {
                    "type": "Ready",
                    "status": "True",
                    "reason": "R",
                    "lastHeartbeatTime": _TIME,
                    "lastTransitionTime": _TIME,
                }
            ],
            [{"type": "MemoryPressure", "status": "False"}],
            [{"type": "Ready", "status": "False"}],
            [{"$patch": "delete", "type": "MemoryPressure"}],
        ):
            body = (await patched(side, path, {"status": {"conditions": conditions}}, STRATEGIC)).body
            found.append(body["status"]["conditions"])
        addresses = [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "Hostname", "address": "n"}]
        body = (await patched(side, path, {"status": {"addresses": addresses}}, STRATEGIC)).body
        found.append(body["status"]["addresses"])
        await side.call("DELETE", path.removesuffix("/status"))
        return found

    seen = await bare.same(observe)
    assert [each["type"] for each in seen[1]] == ["MemoryPressure", "Ready"]


async def test_a_node_is_made_again(bare: Both) -> None:
    """D3: it is another object, without what was patched into the first; pods stay as they are."""

    async def observe(side: Side) -> Any:
        path = await node(side)
        await patched(side, path + "/status", {"status": {"capacity": {MEMORY: "5"}}})
        first = await got(side, path)
        gone = short(await side.call("DELETE", path))
        await node(side)
        second = await got(side, path)
        await side.call("DELETE", path)
        return [gone[0], gone[1]["kind"], first["metadata"]["uid"] != second["metadata"]["uid"], second]

    _, _, other, second = await bare.same(observe)
    assert other
    assert "capacity" not in second["status"]
