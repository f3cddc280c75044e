"""Promises of gpushare.deviceplugin.takeover."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path

import pytest

from clusters.api.waiting import eventually
from gpushare.deviceplugin import takeover
from gpushare.deviceplugin.kubelet_records import CHECKPOINT, KubeletRecords
from gpushare.deviceplugin.takeover import until_released
from gpushare.kube.client import ApiClient
from gpushare.kube.event_recorder import EventRecorder
from gpushare.manifests import ObjectMeta
from tests.servers import StubApi, plain_http, serve

MEMORY, SLOT = "aliyun.com/gpu-mem", "aliyun.com/gpu-slot"


def checkpoint(*registered: str, given: str | None = None) -> bytes:
    """A kubelet's, with these resources; ``given`` has a device in some container."""
    entries = [{"PodUID": "u", "ContainerName": "c", "ResourceName": given, "DeviceIDs": {"-1": ["x"]}}]
    data = {"PodDeviceEntries": entries if given else None, "RegisteredDevices": {name: ["x"] for name in registered}}
    return json.dumps({"Data": data, "Checksum": 1}).encode()


@pytest.mark.parametrize(
    ("content", "answer"),
    [
        (checkpoint(MEMORY), True),
        (checkpoint(SLOT, MEMORY), True),
        (checkpoint(SLOT, given=MEMORY), True),
        (checkpoint(SLOT), False),
        (checkpoint("nvidia.com/gpu", given="nvidia.com/gpu"), False),
        (b"", False),
        (b"{", False),
        (b'{"Data": {"RegisteredDevices": {"aliyun.com/gpu-mem": null}, "PodDeviceEntries": null}}', True),
        (b'{"Data": {"RegisteredDevices": null}}', False),
    ],
)
def test_kubelet_owns_the_resources_it_counts_or_gave_away(tmp_path: Path, content: bytes, answer: bool) -> None:
    """By its checkpoint; an unreadable one proves nothing."""
    (tmp_path / CHECKPOINT).write_bytes(content)

    assert KubeletRecords(tmp_path / "none.sock", tmp_path).owns(MEMORY) is answer


async def test_slots_mode_waits_says_what_to_do_and_goes_on_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event on the node names the file and the steps; moving the file away is the cure."""
    monkeypatch.setattr(takeover, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(takeover, "REPEAT_SECONDS", 0.05)
    path = tmp_path / CHECKPOINT
    path.write_bytes(checkpoint(MEMORY))
    api = StubApi()
    async with serve(api) as url, plain_http(url) as http:
        events = EventRecorder(ApiClient(http), "test", lambda: 0.0, random.Random(1))
        waiting = asyncio.create_task(
            until_released(
                KubeletRecords(tmp_path / "none.sock", tmp_path), ObjectMeta(name="rig", uid="rig-uid"), events
            )
        )

        async def methods() -> list[str]:
            return [call["method"] for call in api.calls]

        await eventually(methods, lambda seen: seen[:2] == ["POST", "PATCH"], "the event is there, and counted up")
        assert not waiting.done()
        path.rename(tmp_path / "moved")
        async with asyncio.timeout(300):
            await waiting

    event = api.events[0]
    involved = event["regarding"]
    assert (involved["kind"], involved["name"], event["reason"]) == ("Node", "rig", "GPUShareResourceOwned")
    for word in (MEMORY, str(path), "drain", "stop the kubelet", "move", "start the kubelet"):
        assert word in event["note"]


async def test_a_node_that_never_had_ids_is_not_waited_for(tmp_path: Path) -> None:
    """No checkpoint at all, on a new node: nothing is reported."""
    api = StubApi()
    async with serve(api) as url, plain_http(url) as http:
        events = EventRecorder(ApiClient(http), "test", lambda: 0.0, random.Random(1))
        await until_released(KubeletRecords(tmp_path / "none.sock", tmp_path), ObjectMeta(name="rig"), events)

    assert api.events == []
