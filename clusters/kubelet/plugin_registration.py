"""The kubelet's registration socket, ``kubelet.sock``.

Rules: Kubernetes pkg/kubelet/cm/devicemanager/plugin/v1beta1. At its start a kubelet removes every socket of the
folder, so that plugins notice, and keeps the checkpoint. Register dials back before it answers, so a plugin that does
not serve yet, or that cannot answer while it waits, is refused.
"""

from __future__ import annotations

import stat
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import grpc
import grpc.aio

from clusters.amounts import is_extended_resource
from clusters.kubelet.plugin_client import PluginError
from clusters.kubelet.proto import deviceplugin_pb2 as pb
from clusters.kubelet.proto import deviceplugin_pb2_grpc as pb_grpc

SOCKET_NAME: Final = "kubelet.sock"
SUPPORTED_VERSION: Final = "v1beta1"
# A kubelet leaves an empty file beside its socket, to tell of the younger way of registration; plugins see it appear.
_HINT_NAME: Final = "DEPRECATION"
# sun_path of a unix socket holds 108 bytes with its closing zero.
_SOCKET_PATH_BYTES: Final = 107
_FOLDER_MODE: Final = 0o750

Connect = Callable[[str, Path], Awaitable[None]]
Context = grpc.aio.ServicerContext[object, object]


class RegistrationServer(pb_grpc.RegistrationServicer):
    """Takes registrations and hands ``(resource, socket)`` to ``connect``, which raises PluginError to refuse."""

    def __init__(self, folder: Path, connect: Connect) -> None:
        self._folder = folder
        self._connect = connect
        self._server: grpc.aio.Server | None = None

    async def start(self) -> None:
        """Clean the folder and serve. Raises ValueError if the path is too long for a socket."""
        socket = socket_path(self._folder, SOCKET_NAME)
        self._folder.mkdir(parents=True, exist_ok=True, mode=_FOLDER_MODE)
        remove_sockets(self._folder)
        self._server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        pb_grpc.add_RegistrationServicer_to_server(self, self._server)
        self._server.add_insecure_port(f"unix:{socket}")
        await self._server.start()
        (self._folder / _HINT_NAME).touch()

    async def stop(self) -> None:
        """Stop serving; Register calls under way are cut off."""
        if self._server is not None:
            await self._server.stop(None)
            self._server = None

    async def Register(self, request: pb.RegisterRequest, context: Context) -> pb.Empty:  # noqa: N802  # gRPC's name
        """One registration; answered only when the plugin has answered us."""
        refusal = refusal_of(request.version, request.resource_name)
        if refusal is None:
            try:
                await self._connect(request.resource_name, self._folder / request.endpoint)
            except PluginError as error:
                refusal = str(error)
        if refusal is not None:
            await context.abort(grpc.StatusCode.UNKNOWN, refusal)
        return pb.Empty()


def refusal_of(version: str, resource: str) -> str | None:
    """Why a kubelet takes no plugin of this API version for this resource, or None."""
    if version != SUPPORTED_VERSION:
        return (
            f'requested API version "{version}" is not supported by kubelet. '
            f'Supported version is ["{SUPPORTED_VERSION}"]'
        )
    if not is_extended_resource(resource):
        return f'the ResourceName "{resource}" is invalid'
    return None


def socket_path(folder: Path, name: str) -> Path:
    """The path of a socket. Raises ValueError if the operating system cannot take it."""
    path = folder / name
    if len(str(path).encode()) > _SOCKET_PATH_BYTES:
        raise ValueError(
            f"{path}: longer than {_SOCKET_PATH_BYTES} bytes, no unix socket fits there; use a shorter root"
        )
    return path


def remove_sockets(folder: Path) -> None:
    """Remove every socket in the folder, and nothing else."""
    for path in folder.iterdir():
        if stat.S_ISSOCK(path.lstat().st_mode):
            path.unlink(missing_ok=True)
