"""Promises of gpushare.deviceplugin.kubelet_records."""

from __future__ import annotations

import base64
import json
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from gpushare.deviceplugin import kubelet_records
from gpushare.deviceplugin.core.holdings import Entry
from gpushare.deviceplugin.kubelet_records import KubeletRecords
from gpushare.deviceplugin.proto import deviceplugin_pb2
from gpushare.deviceplugin.proto import podresources_pb2 as pb
from gpushare.deviceplugin.proto import podresources_pb2_grpc as pb_grpc

MEMORY = "aliyun.com/gpu-mem"


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short one: paths of unix sockets are limited."""
    with tempfile.TemporaryDirectory(prefix="gs-", dir="/tmp") as name:
        yield Path(name)


class Lister(pb_grpc.PodResourcesListerServicer):
    """Refuses each call."""

    def __init__(self, code: grpc.StatusCode = grpc.StatusCode.RESOURCE_EXHAUSTED) -> None:
        self.code = code
        self.calls = 0

    async def List(self, request: pb.ListPodResourcesRequest, context: Any) -> pb.ListPodResourcesResponse:  # noqa: N802
        self.calls += 1
        await context.abort(self.code, "rejected by rate limit")
        raise AssertionError("abort raises")


@asynccontextmanager
async def serving(folder: Path, lister: Lister) -> AsyncIterator[KubeletRecords]:
    """The kubelet's PodResources socket, and the book that asks it."""
    server = grpc.aio.server()
    pb_grpc.add_PodResourcesListerServicer_to_server(lister, server)
    server.add_insecure_port(f"unix:{folder}/pr.sock")
    await server.start()
    try:
        yield KubeletRecords(folder / "pr.sock", folder)
    finally:
        await server.stop(0)


def line(container: str, device_ids: object, uid: str = "u", **more: object) -> dict[str, object]:
    """A line of the device manager's file."""
    return {"PodUID": uid, "ContainerName": container, "ResourceName": MEMORY, "DeviceIDs": device_ids, **more}


def write_checkpoint(folder: Path, *lines: dict[str, object]) -> None:
    """The device manager's file, with a line of another resource."""
    foreign = line("c", ["1"], "foreign", ResourceName="other.com/thing")
    (folder / "kubelet_internal_checkpoint").write_text(
        json.dumps({"Data": {"PodDeviceEntries": [foreign, *lines]}, "Checksum": 1})
    )


@pytest.mark.promise("PR-001")
async def test_golden_bytes_of_an_answer_are_understood(folder: Path) -> None:
    """Namespace, names and ids by the numbers of the published schema, whatever else is in the message."""
    devices = b"\x0a\x12aliyun.com/gpu-mem" + b"\x12\x041-_-" + b"\x1a\x04\x0a\x02\x08\x01"
    container = b"\x0a\x01c" + b"\x12" + bytes([len(devices)]) + devices + b"\x18\x07"
    pod = b"\x0a\x01p" + b"\x12\x01n" + b"\x1a" + bytes([len(container)]) + container
    golden = b"\x0a" + bytes([len(pod)]) + pod
    server = grpc.aio.server()
    answer = grpc.unary_unary_rpc_method_handler(answer_bytes(golden))
    handler = grpc.method_handlers_generic_handler("v1.PodResourcesLister", {"List": answer})
    server.add_generic_rpc_handlers((handler,))
    server.add_insecure_port(f"unix:{folder}/pr.sock")
    await server.start()
    entries = await KubeletRecords(folder / "pr.sock", folder).entries()
    await server.stop(0)

    assert entries == (Entry("c", frozenset({"1-_-"}), namespace="n", pod="p"),)


def answer_bytes(golden: bytes) -> Any:
    """A method that answers these bytes as they are."""

    async def answer(request: bytes, context: Any) -> bytes:
        return golden

    return answer


@pytest.mark.promise("PR-004")
async def test_a_kubelet_that_refuses_too_long_names_no_pod(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In time for PreStartContainer, which has 30 s."""
    monkeypatch.setattr(kubelet_records, "BUDGET_SECONDS", 0.3)
    async with serving(folder, Lister()) as book:
        assert await book.entries() == ()
    assert kubelet_records.BUDGET_SECONDS < 30


async def test_a_socket_without_an_answer_names_no_pod(folder: Path) -> None:
    """The plugin asks once if the kubelet does not implement the call."""
    lister = Lister(grpc.StatusCode.UNIMPLEMENTED)
    async with serving(folder, lister) as book:
        assert await book.entries() == ()
    assert lister.calls == 1


@pytest.mark.parametrize(
    "device_ids", [{"-1": ["1"], "0": ["2"], "1": None}, ["1", "2"]], ids=["by NUMA node", "before 1.20"]
)
async def test_without_the_socket_the_checkpoint_names_the_container(folder: Path, device_ids: object) -> None:
    """The original's manifests mount its folder only; both forms of the file."""
    write_checkpoint(folder, line("c", device_ids))

    assert await KubeletRecords(folder / "none.sock", folder).entries() == (Entry("c", frozenset({"1", "2"}), uid="u"),)


async def test_a_kubelet_with_a_checkpoint_is_not_asked(folder: Path) -> None:
    """The file has uids, the containers' variables, and init containers; and ``List`` disturbs an admission."""
    told = deviceplugin_pb2.ContainerAllocateResponse(envs={"A": "1"}).SerializeToString()
    write_checkpoint(
        folder,
        line("c", ["1", "2"], "uid-a", AllocResp=base64.b64encode(told).decode()),
        line("init", ["1"], "uid-a"),
    )
    lister = Lister()
    async with serving(folder, lister) as book:
        entries = await book.entries()

    assert lister.calls == 0
    assert entries == (
        Entry("c", frozenset({"1", "2"}), uid="uid-a", variables={"A": "1"}),
        Entry("init", frozenset({"1"}), uid="uid-a"),
    )


@pytest.mark.parametrize("response", ["", "%%%", base64.b64encode(b"\xff\xff\xff").decode()])
async def test_an_answer_that_cannot_be_read_is_none(folder: Path, response: str) -> None:
    """The ids are still there."""
    write_checkpoint(folder, line("c", ["1"], AllocResp=response))

    assert KubeletRecords(folder / "none.sock", folder).checkpoint() == (Entry("c", frozenset({"1"}), uid="u"),)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"Data":{"PodDeviceEntries":null}}', ()),
        ('{"Data":{}}', ()),
        (None, None),
        ("", None),
        ("{", None),
        ("[]", None),
    ],
)
async def test_an_empty_checkpoint_is_not_an_unreadable_one(folder: Path, text: str | None, found: object) -> None:
    """A new machine's names no pod; one that is missing, half written or no checkpoint at all is none."""
    if text is not None:
        (folder / "kubelet_internal_checkpoint").write_text(text)
    book = KubeletRecords(folder / "none.sock", folder)

    assert (book.checkpoint(), await book.entries()) == (found, ())


async def test_a_checkpoint_that_changed_is_read_again(folder: Path) -> None:
    """Whether it was replaced or written over."""
    book = KubeletRecords(folder / "none.sock", folder)
    seen = []
    for uid in ("u", "v"):
        write_checkpoint(folder, line("c", ["1"], uid * 2))
        seen.append([entry.uid for entry in book.checkpoint() or ()])

    assert seen == [["uu"], ["vv"]]
