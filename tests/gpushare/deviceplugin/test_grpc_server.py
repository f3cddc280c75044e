"""Promises of gpushare.deviceplugin.grpc_server about registration, against a real small kubelet socket."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import grpc
import grpc.aio
import pytest

from clusters.kubelet.proto import deviceplugin_pb2 as pb
from clusters.kubelet.proto.grpc_services import DEVICE_PLUGIN, REGISTRATION, serve, stub_of
from gpushare.deviceplugin import grpc_server
from gpushare.deviceplugin.grpc_server import DevicePluginServer, stay_registered
from gpushare.model.cards import CardFacts, NodeCards
from tests.servers import until


class OneCard:
    """A node with one card of two units; all that the server reads of it."""

    listeners: ClassVar[list[Any]] = []
    kept_ids = frozenset
    cards = NodeCards(1, "ids", "GiB", "", (CardFacts(0, "GPU-aaaaaaaa", "m", 2048, 2),))


class Kubelet:
    """Calls the plugin back inside Register, as kubelets do."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.registered: asyncio.Queue[pb.RegisterRequest] = asyncio.Queue()
        self.reads_list = self.silent = False
        self.channel: grpc.aio.Channel | None = None

    async def Register(self, request: pb.RegisterRequest, context: Any) -> pb.Empty:  # noqa: N802
        if self.silent:
            await asyncio.sleep(3600)
        async with grpc.aio.insecure_channel(f"unix:{self.folder}/{request.endpoint}") as channel:
            options = await stub_of(channel, DEVICE_PLUGIN).GetDevicePluginOptions(pb.Empty(), timeout=300)
        assert options == request.options
        if self.reads_list:
            self.channel = grpc.aio.insecure_channel(f"unix:{self.folder}/{request.endpoint}")
            self.stream = stub_of(self.channel, DEVICE_PLUGIN).ListAndWatch(pb.Empty())
            await self.stream.read()
        await self.registered.put(request)
        return pb.Empty()

    async def start(self) -> None:
        self._server = grpc.aio.server()
        serve(self._server, REGISTRATION, self)
        self._server.add_insecure_port(f"unix:{self.folder}/kubelet.sock")
        await self._server.start()

    async def stop(self) -> None:
        await self._server.stop(0)
        if self.channel is not None:
            await self.channel.close()


@contextlib.asynccontextmanager
async def staying(
    monkeypatch: pytest.MonkeyPatch, *, reads_list: bool = False, silent: bool = False, unwatched: float = 3600
) -> AsyncIterator[Kubelet]:
    """A plugin that stays registered beside a kubelet."""
    monkeypatch.setattr(grpc_server, "UNWATCHED_SECONDS", unwatched)
    with tempfile.TemporaryDirectory(prefix="gs-", dir="/tmp") as name:
        kubelet = Kubelet(Path(name))
        kubelet.reads_list, kubelet.silent = reads_list, silent
        await kubelet.start()
        answers = SimpleNamespace(begin_registration=lambda **more: None)
        server = DevicePluginServer(answers, OneCard())  # type: ignore[arg-type]
        staying = asyncio.create_task(stay_registered(server, kubelet.folder, Counter()))
        try:
            yield kubelet
        finally:
            staying.cancel()
            await asyncio.wait([staying])
            await kubelet.stop()


async def next_registration(kubelet: Kubelet) -> pb.RegisterRequest:
    """The next one, or a failure after a while."""
    return await asyncio.wait_for(kubelet.registered.get(), 300)


async def test_a_plugin_without_a_watch_registers_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kubelet drops the new plugin when the stream of the one before it ends late."""
    async with staying(monkeypatch, reads_list=True, unwatched=0.2) as kubelet:
        await next_registration(kubelet)
        await asyncio.sleep(0.4)
        assert kubelet.registered.empty()
        kubelet.stream.cancel()
        await next_registration(kubelet)


async def test_a_kubelet_that_was_too_slow_gets_time_to_part(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The plugin waits before it registers again at a slow kubelet, which may have taken the registration after all."""
    monkeypatch.setattr(grpc_server, "REGISTER_SECONDS", 0.1)
    monkeypatch.setattr(grpc_server, "PARTING_SECONDS", 3600)
    async with staying(monkeypatch, silent=True) as kubelet:
        await until(lambda: "code=DEADLINE_EXCEEDED" in caplog.text, seconds=60)
        monkeypatch.setattr(grpc_server, "REGISTER_SECONDS", 60)
        kubelet.silent = False
        # Without the wait the next registration would come after 20 ms.
        await asyncio.sleep(0.3)

        assert kubelet.registered.empty()


@pytest.mark.promise("DP-009")
async def test_a_kubelet_that_runs_on_has_time_to_part_with_us(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kubelet that reads the end of our stream late does not take the new registration for the old one."""
    async with staying(monkeypatch) as kubelet:
        await next_registration(kubelet)
        async with grpc.aio.insecure_channel(f"unix:{kubelet.folder}/aliyungpushare.sock") as channel:
            stream = stub_of(channel, DEVICE_PLUGIN).ListAndWatch(pb.Empty())
            await stream.read()
            (kubelet.folder / "aliyungpushare.sock").unlink()
            # An error: the connection was closed before the status was read.
            with contextlib.suppress(grpc.aio.AioRpcError):
                assert await stream.read() is grpc.aio.EOF
            # A loaded kubelet is that late.
            await asyncio.sleep(0.3)

            assert kubelet.registered.empty()
        await next_registration(kubelet)
