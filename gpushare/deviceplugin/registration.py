"""Keep the plugin registered: serve, register, and do both again when the kubelet starts again.

A kubelet calls back GetDevicePluginOptions *inside* Register, so the server runs first. At its start it removes every
socket in the folder and creates its own, and it never asks again for a ListAndWatch stream that ended. So whenever
``kubelet.sock`` is another file than the one we registered at, our own socket is gone, or no kubelet reads our list, the
old server is stopped, then a new one registers.

A kubelet that runs on needs a moment between the two. When it has read the end of a stream, it drops whichever plugin is
registered for the resource at that time (``runClient`` in its device manager). If that is the new one, the kubelet closes the
new list, or goes on reading it and will not notice its end. Then the node shows the memory of a plugin that is dead.

Until a plugin has registered again the node shows none of its cards, and pods that are admitted in between fail for good. So a
new kubelet must be noticed immediately, and a folder without changes must cost nothing: ``FolderWatch`` waits by inotify, or
looks more often if the kernel has none.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import grpc
import grpc.aio
from asyncinotify import Inotify, Mask

from gpushare import wire
from gpushare.deviceplugin.grpc_server import DevicePluginServer
from gpushare.deviceplugin.proto import deviceplugin_pb2 as pb
from gpushare.deviceplugin.proto import deviceplugin_pb2_grpc as pb_grpc

_LOG = logging.getLogger(__name__)

# How long our list may have no reader before we register again, in seconds.
UNWATCHED_SECONDS: Final = 5.0
# How long a kubelet that runs on gets to part with our old registration, in seconds. A new kubelet ends the wait.
PARTING_SECONDS: Final = 1.0
# The kubelet dials us for up to 10 s inside Register.
REGISTER_SECONDS: Final = 30.0
# Between two attempts, in seconds: the first, and the most. A kubelet's socket is there shortly before it answers.
FIRST_PAUSE_SECONDS: Final = 0.02
_LONGEST_PAUSE_SECONDS: Final = 30.0
# How often the folder is looked at in any case, in seconds: if inotify missed a change, and if there is no inotify.
_TOLD_SECONDS: Final = 10.0
UNTOLD_SECONDS: Final = 0.5

# Device, inode and creation time of a socket: a re-created file is another one.
Identity = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource that is registered: its name, and the socket of its service."""

    name: str
    socket: str


MEMORY: Final = Resource(wire.RESOURCE_MEMORY, wire.PLUGIN_SOCKET)
SLOTS: Final = Resource(wire.RESOURCE_SLOT, wire.SLOT_SOCKET)


async def stay_registered(
    server: DevicePluginServer,
    folder: Path,
    resource: Resource = MEMORY,
    registered: Callable[[], None] = lambda: None,
    kubelet_changed: Callable[[], None] = lambda: None,
) -> None:
    """Serve and register for ever; ends only by cancellation, and then stops serving. One call for each resource.

    ``registered`` is called each time that the kubelet took the resource; ``kubelet_changed`` is called before that if it is not
    the kubelet of the time before.
    """
    own, kubelet = folder / resource.socket, folder / wire.KUBELET_SOCKET
    pause = FIRST_PAUSE_SECONDS
    last: Identity | None = None
    with watching(folder) as watch:
        while True:
            before = last if last is not None else identity(kubelet)
            last = kubelet_identity = await _there(kubelet, watch)
            if kubelet_identity != before:
                kubelet_changed()
                pause = FIRST_PAUSE_SECONDS
            try:
                await server.start(own)
                try:
                    await register(kubelet, resource, server.options)
                    if (now := identity(kubelet)) not in (None, kubelet_identity):
                        # It started while we registered. If the one before it answered, this one will not read our list.
                        last = kubelet_identity = now
                        kubelet_changed()
                    _LOG.info("registered resource=%s socket=%s", resource.name, own)
                    registered()
                    pause = FIRST_PAUSE_SECONDS
                    await _until_changed(server, own, kubelet, kubelet_identity, watch)
                finally:
                    await server.stop()
                await _rest(PARTING_SECONDS, kubelet, kubelet_identity, watch)
            except grpc.aio.AioRpcError as error:
                _LOG.warning(
                    "the kubelet refused code=%s details=%s retry_seconds=%.2f",
                    error.code().name, error.details(), pause,
                )  # fmt: skip
                # A kubelet that was slow may have taken this registration in the end.
                is_slow = error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
                await _rest(max(pause, PARTING_SECONDS) if is_slow else pause, kubelet, kubelet_identity, watch)
                pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)


async def _there(kubelet: Path, watch: FolderWatch) -> Identity:
    """Which socket the kubelet has; waited for."""
    waiting = False
    while (found := identity(kubelet)) is None:
        if not waiting:
            _LOG.warning("waiting for the kubelet socket=%s", kubelet)
        waiting = True
        await watch.changed()
    return found


async def _rest(seconds: float, kubelet: Path, kubelet_identity: Identity, watch: FolderWatch) -> None:
    """Wait this long, or until there is another socket: a kubelet that ended leaves one at which nothing answers."""
    now = asyncio.get_running_loop().time
    end = now() + seconds
    while identity(kubelet) == kubelet_identity and now() < end:
        await watch.changed(end - now())


async def register(kubelet: Path, resource: Resource, plugin_options: pb.DevicePluginOptions) -> None:
    """Tell the kubelet a resource and its socket. Raises grpc.aio.AioRpcError when it refuses."""
    options = [("grpc.default_authority", "localhost")]
    async with grpc.aio.insecure_channel(f"unix:{kubelet}", options=options) as channel:
        request = pb.RegisterRequest(
            version=wire.DEVICE_PLUGIN_VERSION,
            endpoint=resource.socket,
            resource_name=resource.name,
            options=plugin_options,
        )
        await pb_grpc.RegistrationStub(channel).Register(request, timeout=REGISTER_SECONDS)


async def _until_changed(
    server: DevicePluginServer, own: Path, kubelet: Path, kubelet_identity: Identity, watch: FolderWatch
) -> None:
    """Until registering again is due. A kubelet asks for the list right after Register; it gets a while for that."""
    now = asyncio.get_running_loop().time
    watched = now()
    while identity(kubelet) == kubelet_identity and identity(own) is not None and now() - watched < UNWATCHED_SECONDS:
        was_watched = server.is_watched
        await watch.changed(UNWATCHED_SECONDS if was_watched else UNWATCHED_SECONDS / 10)
        if was_watched:
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


@dataclass(eq=False)
class FolderWatch:
    """One folder, which may not be there yet. ``inotify`` is None if the kernel has none for us."""

    folder: Path
    inotify: Inotify | None
    _watched: tuple[int, ...] | None = field(default=None, init=False)

    async def changed(self, seconds: float = _TOLD_SECONDS) -> None:
        """Until something came or went in the folder, or at most this many seconds. It may also be nothing."""
        if self.inotify is None:
            await asyncio.sleep(min(seconds, UNTOLD_SECONDS))
            return
        found = identity(self.folder)
        # Device and inode: a folder's times change with what lies in it.
        here = None if found is None else found[:2]
        if here is None or here != self._watched:
            # The folder is another one, or is seen for the first time: changes before the watch began are not reported.
            self._watched = here if self._is_watched(self.inotify) else None
            await asyncio.sleep(0 if self._watched else min(seconds, UNTOLD_SECONDS))
            return
        # Not wait_for: before Python 3.12 it loses a cancellation that comes together with an event.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.inotify.get()

    def _is_watched(self, inotify: Inotify) -> bool:
        try:
            inotify.add_watch(self.folder, Mask.CREATE | Mask.DELETE | Mask.MOVE)
        except FileNotFoundError:
            return False
        except OSError as error:
            _LOG.warning("folder not watched folder=%s reason=%s", self.folder, error)
            return False
        return True


@contextlib.contextmanager
def watching(folder: Path) -> Iterator[FolderWatch]:
    """A watch of the folder, which ends with the context."""
    inotify = None
    try:
        inotify = Inotify()
    except OSError as error:
        # Kernels allow few for one user (fs.inotify.max_user_instances), and a node has many programs of root's.
        _LOG.warning("no inotify, looking every seconds=%.1f folder=%s reason=%s", UNTOLD_SECONDS, folder, error)
    with inotify or contextlib.nullcontext():
        yield FolderWatch(folder, inotify)
