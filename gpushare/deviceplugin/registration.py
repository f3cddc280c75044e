"""Keep the plugin registered: serve, register, and do both again when the kubelet starts again.

A kubelet calls back GetDevicePluginOptions *inside* Register, so the server runs first. At its start it removes every
socket in the folder and creates its own, and it never asks again for a ListAndWatch stream that ended. So whenever
``kubelet.sock`` is another file than the one we registered at, our own socket is gone, or no kubelet reads our list, the
old server is stopped, then a new one registers.

A kubelet that runs on needs a moment between the two. When it has read the end of a stream, it drops whichever plugin is
registered for the resource at that time (``runClient`` in its device manager). If that is the new one, the kubelet closes the
new list, or goes on reading it and will not notice its end. Then the node shows the memory of a plugin that is dead.

Until a plugin has registered again the node shows none of its cards, and pods that are admitted in between fail for good. So a
new kubelet must be noticed immediately: the two sockets are looked at ten times a second.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from pathlib import Path
from typing import Final

import grpc
import grpc.aio

from gpushare import wire
from gpushare.deviceplugin.grpc_server import DevicePluginServer
from gpushare.deviceplugin.proto import deviceplugin_pb2 as pb
from gpushare.deviceplugin.proto import deviceplugin_pb2_grpc as pb_grpc

_LOG = logging.getLogger(__name__)

# How often the sockets are looked at, in seconds: two resources cost 0.2 % of a core.
_LOOK_SECONDS: Final = 0.1
# How long our list may have no reader before we register again, in seconds.
UNWATCHED_SECONDS: Final = 5.0
# How long a kubelet that runs on gets to part with our old registration, in seconds. A new kubelet ends the wait.
PARTING_SECONDS: Final = 1.0
# The kubelet dials us for up to 10 s inside Register.
REGISTER_SECONDS: Final = 30.0
# Between two attempts, in seconds: the first, and the most. A kubelet's socket is there shortly before it answers.
FIRST_PAUSE_SECONDS: Final = 0.02
_LONGEST_PAUSE_SECONDS: Final = 30.0

# Device, inode and creation time of a socket: a re-created file is another one.
Identity = tuple[int, int, int]


async def stay_registered(server: DevicePluginServer, folder: Path, registrations: Counter[str]) -> None:
    """Serve and register for ever; ends only by cancellation, and then stops serving. One call for each resource.

    ``registrations`` counts by resource those that the kubelet took.
    """
    own, kubelet = folder / server.socket, folder / wire.KUBELET_SOCKET
    pause = FIRST_PAUSE_SECONDS
    last = identity(kubelet)
    while True:
        if identity(kubelet) is None:
            _LOG.warning("waiting for the kubelet socket=%s", kubelet)
            await _rest(math.inf, kubelet, None)
        found = identity(kubelet)
        server.begin_registration(kubelet_is_another=found != last)
        if found != last:
            last, pause = found, FIRST_PAUSE_SECONDS
        try:
            await server.start(own)
            try:
                await _register(kubelet, server)
                if (now := identity(kubelet)) not in (None, last):
                    # It started while we registered. If the one before it answered, this one will not read our list.
                    last = now
                    server.begin_registration(kubelet_is_another=True)
                _LOG.info("registered resource=%s socket=%s", server.resource, own)
                registrations[server.resource] += 1
                pause = FIRST_PAUSE_SECONDS
                await _until_changed(server, own, kubelet, last)
            finally:
                await server.stop()
            await _rest(PARTING_SECONDS, kubelet, last)
        except grpc.aio.AioRpcError as error:
            _LOG.warning(
                "the kubelet refused code=%s details=%s retry_seconds=%.2f", error.code().name, error.details(), pause
            )
            # A kubelet that was slow may have taken this registration in the end.
            is_slow = error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
            await _rest(max(pause, PARTING_SECONDS) if is_slow else pause, kubelet, last)
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)


async def _rest(seconds: float, kubelet: Path, known: Identity | None) -> None:
    """Wait this long, or until there is another socket: a kubelet that ended leaves one at which nothing answers."""
    now = asyncio.get_running_loop().time
    end = now() + seconds
    while identity(kubelet) == known and (left := end - now()) > 0:  # noqa: ASYNC110  # a file has no event
        await asyncio.sleep(min(left, _LOOK_SECONDS))


async def _register(kubelet: Path, server: DevicePluginServer) -> None:
    """Tell the kubelet the resource and its socket. Raises grpc.aio.AioRpcError when it refuses."""
    options = [("grpc.default_authority", "localhost")]
    async with grpc.aio.insecure_channel(f"unix:{kubelet}", options=options) as channel:
        request = pb.RegisterRequest(
            version=wire.DEVICE_PLUGIN_VERSION,
            endpoint=server.socket,
            resource_name=server.resource,
            options=server.options,
        )
        await pb_grpc.RegistrationStub(channel).Register(request, timeout=REGISTER_SECONDS)


async def _until_changed(server: DevicePluginServer, own: Path, kubelet: Path, known: Identity | None) -> None:
    """Until registering again is due. A kubelet asks for the list right after Register; it gets a while for that."""
    now = asyncio.get_running_loop().time
    watched = now()
    while identity(kubelet) == known and identity(own) is not None and now() - watched < UNWATCHED_SECONDS:
        await asyncio.sleep(_LOOK_SECONDS)
        if server.is_watched:
            watched = now()
    _LOG.info(
        "registering again watched=%s: the kubelet restarted, dropped us, or our socket is gone", server.is_watched
    )


def identity(path: Path) -> Identity | None:
    """Which file lies at ``path`` now, or None."""
    try:
        stat = path.stat()
    except FileNotFoundError:
        return None
    return stat.st_dev, stat.st_ino, stat.st_ctime_ns
