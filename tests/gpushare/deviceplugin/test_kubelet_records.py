"""Promises of gpushare.deviceplugin.kubelet_records."""

from __future__ import annotations

import base64
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from gpushare.deviceplugin.core.holdings import Entry
from gpushare.deviceplugin.kubelet_records import CHECKPOINT, KubeletRecords
from gpushare.deviceplugin.proto import deviceplugin_pb2

MEMORY, SLOT = "aliyun.com/gpu-mem", "aliyun.com/gpu-slot"


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short one: paths of unix sockets are limited."""
    with tempfile.TemporaryDirectory(prefix="gs-", dir="/tmp") as name:
        yield Path(name)


def line(container: str, device_ids: object, uid: str = "u", **more: object) -> dict[str, object]:
    """A line of the device manager's file."""
    return {"PodUID": uid, "ContainerName": container, "ResourceName": MEMORY, "DeviceIDs": device_ids, **more}


@pytest.mark.promise("PR-001")
async def test_golden_bytes_of_an_answer_are_understood(folder: Path) -> None:
    """Namespace, names and ids by the numbers of the published schema, whatever else is in the message."""
    devices = b"\x0a\x12aliyun.com/gpu-mem" + b"\x12\x041-_-" + b"\x1a\x04\x0a\x02\x08\x01"
    container = b"\x0a\x01c" + b"\x12" + bytes([len(devices)]) + devices + b"\x18\x07"
    pod = b"\x0a\x01p" + b"\x12\x01n" + b"\x1a" + bytes([len(container)]) + container
    golden = b"\x0a" + bytes([len(pod)]) + pod

    async def answer(request: bytes, context: Any) -> bytes:
        return golden

    server = grpc.aio.server()
    method = grpc.unary_unary_rpc_method_handler(answer)
    handler = grpc.method_handlers_generic_handler("v1.PodResourcesLister", {"List": method})
    server.add_generic_rpc_handlers((handler,))
    server.add_insecure_port(f"unix:{folder}/pr.sock")
    await server.start()
    entries = await KubeletRecords(folder / "pr.sock", folder).entries()
    await server.stop(0)

    assert entries == (Entry("c", frozenset({"1-_-"}), namespace="n", pod="p"),)


@pytest.mark.parametrize(
    "device_ids", [{"-1": ["1"], "0": ["2"], "1": None}, ["1", "2"]], ids=["by NUMA node", "before 1.20"]
)
async def test_the_checkpoint_names_the_container(folder: Path, device_ids: object) -> None:
    """Both forms of the file have uids, variables and init containers, and lines of other resources."""
    told = deviceplugin_pb2.ContainerAllocateResponse(envs={"A": "1"}).SerializeToString()
    response = base64.b64encode(told).decode()
    foreign = line("c", ["1"], "foreign", ResourceName="other.com/thing")
    lines = [foreign, line("c", device_ids, "uid-a", AllocResp=response), line("init", ["1"], "uid-a")]
    (folder / CHECKPOINT).write_text(json.dumps({"Data": {"PodDeviceEntries": lines}, "Checksum": 1}))

    assert KubeletRecords(folder / "none.sock", folder).checkpoint() == (
        Entry("c", frozenset({"1", "2"}), uid="uid-a", variables={"A": "1"}),
        Entry("init", frozenset({"1"}), uid="uid-a"),
    )


@pytest.mark.parametrize("response", ["", "%%%", base64.b64encode(b"\xff\xff\xff").decode()])
def test_an_answer_that_cannot_be_read_is_none(folder: Path, response: str) -> None:
    """The ids are still there."""
    lines = [line("c", ["1"], AllocResp=response)]
    (folder / CHECKPOINT).write_text(json.dumps({"Data": {"PodDeviceEntries": lines}, "Checksum": 1}))

    assert KubeletRecords(folder / "none.sock", folder).checkpoint() == (Entry("c", frozenset({"1"}), uid="u"),)


def counted(*resources: str, given: str = "other.com/thing") -> str:
    """The file of a kubelet that counts these, and gave one to a pod."""
    data = {
        "PodDeviceEntries": [line("c", ["1"], ResourceName=given)],
        "RegisteredDevices": {one: ["x"] for one in resources},
    }
    return json.dumps({"Data": data, "Checksum": 1})


@pytest.mark.parametrize(
    ("text", "found", "owns"),
    [
        ('{"Data":{"PodDeviceEntries":null}}', (), False),
        ('{"Data":{"RegisteredDevices":null}}', (), False),
        ('{"Data":{"RegisteredDevices":{"aliyun.com/gpu-mem":null}}}', (), True),
        (counted(SLOT, MEMORY), (), True),
        (counted(SLOT, "nvidia.com/gpu"), (), False),
        (counted(SLOT, given=MEMORY), (Entry("c", frozenset({"1"}), uid="u"),), True),
        (None, None, False),
        ("", None, False),
        ("{", None, False),
        ("[]", None, False),
    ],
)
async def test_an_empty_checkpoint_is_not_an_unreadable_one(
    folder: Path, text: str | None, found: tuple[Entry, ...] | None, owns: bool
) -> None:
    """One that is missing or makes no sense names no pod and proves nothing; a kubelet owns what it counts or gave away."""
    if text is not None:
        (folder / CHECKPOINT).write_text(text)
    book = KubeletRecords(folder / "none.sock", folder)

    assert (book.checkpoint(), await book.entries(), book.owns(MEMORY)) == (found, found or (), owns)


def test_a_checkpoint_that_may_not_be_read_is_no_answer(folder: Path) -> None:
    """The kubelet can read it, so slots mode must not go on as if it owned nothing."""
    (folder / CHECKPOINT).mkdir()

    with pytest.raises(OSError, match=CHECKPOINT):
        KubeletRecords(folder / "none.sock", folder).owns(MEMORY)
