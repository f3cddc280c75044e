"""Promises of gpushare.deviceplugin.owner: PodResources over a real socket, and the checkpoint."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from gpushare.deviceplugin.owner import KubeletBook, Owner
from gpushare.deviceplugin.proto import podresources_pb2 as pb
from gpushare.deviceplugin.proto import podresources_pb2_grpc as pb_grpc

MEMORY = "aliyun.com/gpu-mem"


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short one: paths of unix sockets are limited."""
    with tempfile.TemporaryDirectory(prefix="gs-", dir="/tmp") as name:
        yield Path(name)


class Lister(pb_grpc.PodResourcesListerServicer):
    """Two pods; each id comes as a ContainerDevices of its own, as on a real kubelet."""

    def __init__(self, *, fails: bool = False) -> None:
        self.fails = fails

    async def List(self, request: pb.ListPodResourcesRequest, context: Any) -> pb.ListPodResourcesResponse:  # noqa: N802
        if self.fails:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit")

        def devices(*ids: str, resource: str = MEMORY) -> list[pb.ContainerDevices]:
            return [pb.ContainerDevices(resource_name=resource, device_ids=[one]) for one in ids]

        a = pb.PodResources(
            name="a", namespace="d", containers=[pb.ContainerResources(name="c", devices=devices("1", "2"))]
        )
        other = devices("1", resource="other.com/thing")
        b = pb.PodResources(
            name="b", namespace="d", containers=[pb.ContainerResources(name="c", devices=[*other, *devices("3")])]
        )
        return pb.ListPodResourcesResponse(pod_resources=[a, b])


async def serve(folder: Path, lister: Lister) -> grpc.aio.Server:
    """The kubelet's PodResources socket."""
    server = grpc.aio.server()
    pb_grpc.add_PodResourcesListerServicer_to_server(lister, server)
    server.add_insecure_port(f"unix:{folder}/pr.sock")
    await server.start()
    return server


def write_checkpoint(folder: Path, device_ids: object, uid: str = "u") -> None:
    """The device manager's file."""
    entry = {"PodUID": uid, "ContainerName": "c", "ResourceName": MEMORY, "DeviceIDs": device_ids, "AllocResp": ""}
    foreign = {**entry, "ResourceName": "other.com/thing", "PodUID": "foreign"}
    (folder / "kubelet_internal_checkpoint").write_text(
        json.dumps({"Data": {"PodDeviceEntries": [foreign, entry]}, "Checksum": 1})
    )


async def test_pod_resources_names_the_owner_of_an_id(folder: Path) -> None:
    """PR-001, PR-002: the union over a container's parts, of our resource only."""
    server = await serve(folder, Lister())
    book = KubeletBook(folder / "pr.sock", folder)
    owners = await book.owners()
    await server.stop(0)

    assert owners == {"1": Owner("d", "a"), "2": Owner("d", "a"), "3": Owner("d", "b")}


@pytest.mark.parametrize(
    "device_ids", [{"-1": ["1"], "0": ["2"], "1": None}, ["1", "2"]], ids=["by NUMA node", "before 1.20"]
)
async def test_without_the_socket_the_checkpoint_names_the_owner(folder: Path, device_ids: object) -> None:
    """The original's manifests mount its folder only; both forms of the file."""
    write_checkpoint(folder, device_ids)
    book = KubeletBook(folder / "none.sock", folder)

    assert await book.owners() == {"1": Owner(uid="u"), "2": Owner(uid="u")}
    assert await book.owner(["9", "2"]) == Owner(uid="u")
    assert await book.owner(["9"]) is None


async def test_a_socket_that_refuses_leaves_the_checkpoint(folder: Path) -> None:
    """PR-004: rate limits are the kubelet's right."""
    server = await serve(folder, Lister(fails=True))
    write_checkpoint(folder, ["1"])
    owner = await KubeletBook(folder / "pr.sock", folder).owner(["1"])
    await server.stop(0)

    assert owner == Owner(uid="u")


@pytest.mark.parametrize("text", [None, "", "{", '{"Data":{"PodDeviceEntries":null}}', '{"Data":{}}'])
async def test_a_checkpoint_that_says_nothing_is_nobody(folder: Path, text: str | None) -> None:
    """Missing, half written, or empty."""
    if text is not None:
        (folder / "kubelet_internal_checkpoint").write_text(text)

    assert await KubeletBook(folder / "none.sock", folder).owners() == {}
