"""The kubelet that records asks a plugin only for what the plugin offers."""

from __future__ import annotations

import asyncio
from pathlib import Path

import grpc.aio
import pytest

from clusters.api.waiting import until
from clusters.kubelet.proto import deviceplugin_pb2 as pb
from clusters.kubelet.proto import deviceplugin_pb2_grpc as pb_grpc
from e2e.device_plugin.recording_kubelet import RecordingKubelet, Registration

_RESOURCE = "example.com/card"


class PlainPlugin(pb_grpc.DevicePluginServicer):
    """A plugin that offers a list alone; both optional calls are UNIMPLEMENTED."""

    async def GetDevicePluginOptions(  # noqa: N802  # gRPC's name
        self, request: pb.Empty, context: grpc.aio.ServicerContext[object, object]
    ) -> pb.DevicePluginOptions:
        """Neither of them is offered."""
        return pb.DevicePluginOptions()

    async def ListAndWatch(  # noqa: N802
        self, request: pb.Empty, context: grpc.aio.ServicerContext[object, object]
    ) -> None:
        """Three devices, once."""
        devices = [pb.Device(ID=one, health="Healthy") for one in ("a", "b", "c")]
        await context.write(pb.ListAndWatchResponse(devices=devices))
        await asyncio.Event().wait()


@pytest.mark.parametrize(("must", "ids"), [((), ["a", "b"]), (("c",), ["c", "a"])], ids=["any", "must"])
async def test_optional_calls_are_made_if_offered(tmp_path: Path, must: tuple[str, ...], ids: list[str]) -> None:
    """A plugin without them gets neither; the kubelet takes the ids that it must, then any."""
    kubelet = RecordingKubelet(tmp_path / "plugins", tmp_path / "resources" / "kubelet.sock")
    await kubelet.start()
    plugin = grpc.aio.server()
    pb_grpc.add_DevicePluginServicer_to_server(PlainPlugin(), plugin)
    plugin.add_insecure_port(f"unix:{tmp_path / 'plugins' / 'plain.sock'}")
    await plugin.start()
    try:
        async with grpc.aio.insecure_channel(f"unix:{tmp_path / 'plugins' / 'kubelet.sock'}") as channel:
            request = pb.RegisterRequest(version="v1beta1", endpoint="plain.sock", resource_name=_RESOURCE)
            await pb_grpc.RegistrationStub(channel).Register(request)

        def registered() -> Registration | None:
            return kubelet.latest(_RESOURCE)

        await until(registered, lambda one: one is not None, "the plugin is registered")
        assert await kubelet.prefer(_RESOURCE, ["a", "b", "c"], 2, must=must) == ids
        await kubelet.pre_start(_RESOURCE, ids)
    finally:
        await kubelet.stop()
        await plugin.stop(None)
