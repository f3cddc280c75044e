"""A device plugin by other hands: ``python -m e2e.reference.reference_plugin --folder … --resources … --me NODE``."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import secrets
import signal
import sys
import time
from pathlib import Path
from typing import Final

import grpc
import grpc.aio

from clusters.api.api_client import ApiError
from clusters.api.connection import TransportError
from clusters.api.resources import NODES
from clusters.kubelet.proto import deviceplugin_pb2 as pb
from clusters.kubelet.proto.grpc_services import DEVICE_PLUGIN, REGISTRATION, serve, stub_of
from e2e.reference import reference_faults
from e2e.reference.reference_allocation import Allocation, Records
from e2e.reference.reference_api import Api
from e2e.reference.reference_cards import Cards, note
from e2e.reference.reference_ledger import Ledger
from e2e.reference.reference_limits import Limits
from e2e.reference.reference_pods import CARDS, COUNT, MEMORY, Faults

_LOG: Final = logging.getLogger("reference implementation.plugin")
SOCKET: Final = "aliyungpushare.sock"
_ORIGINAL_FOLDER: Final = "/var/lib/kubelet/device-plugins"
_OPTIONS: Final = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.so_reuseport", 0),
]
_KUBELET_BYTES: Final = 4 * 1024 * 1024
_FIRST_PAUSE: Final = 0.1
_LONGER: Final = 1.6
_LONGEST_PAUSE: Final = 10.0
_LOOK_SECONDS: Final = 0.2
_ASSERT_SECONDS: Final = 1.0
Context = grpc.aio.ServicerContext[object, object]


class Servicer:
    """The calls of the kubelet."""

    def __init__(self, cards: Cards, salt: str, allocation: Allocation, faults: Faults) -> None:
        self._cards, self._salt, self._allocation, self._faults = cards, salt, allocation, faults
        self._news = asyncio.Condition()
        self._changes = 0

    def message(self) -> pb.ListAndWatchResponse:
        """The list as it is now."""
        devices = [
            pb.Device(ID=name, health="Healthy" if is_well else "Unhealthy")
            for name, _, is_well in self._cards.ids(self._salt)
        ]
        return pb.ListAndWatchResponse(devices=devices)

    async def publish_health(self) -> None:
        """The health of a card has changed."""
        async with self._news:
            self._changes += 1
            self._news.notify_all()

    def options(self) -> pb.DevicePluginOptions:
        """Both calls are offered."""
        is_plain = "original-options" in self._faults
        return pb.DevicePluginOptions(pre_start_required=not is_plain, get_preferred_allocation_available=not is_plain)

    async def GetDevicePluginOptions(self, request: pb.Empty, context: Context) -> pb.DevicePluginOptions:  # noqa: N802
        """Asked inside Register."""
        return self.options()

    async def ListAndWatch(self, request: pb.Empty, context: Context) -> None:  # noqa: N802
        """The whole list now, and whenever it changes."""
        seen = self._changes
        await context.write(self.message())
        while True:
            async with self._news:
                while self._changes == seen:
                    await self._news.wait()
                seen = self._changes
            count = len(self._cards.ids("")) // len(self._cards.all) if "d08-list-for-each-id" in self._faults else 1
            for _ in range(count):
                await context.write(self.message())

    async def GetPreferredAllocation(  # noqa: N802
        self, request: pb.PreferredAllocationRequest, context: Context
    ) -> pb.PreferredAllocationResponse:
        """Ids of the card of the pod whose turn it is."""
        answers = []
        for one in request.container_requests:
            ids = await self._allocation.prefer(
                one.available_deviceIDs, one.must_include_deviceIDs, one.allocation_size
            )
            answers.append(pb.ContainerPreferredAllocationResponse(deviceIDs=ids))
        return pb.PreferredAllocationResponse(container_responses=answers)

    async def Allocate(self, request: pb.AllocateRequest, context: Context) -> pb.AllocateResponse:  # noqa: N802
        """Variables of each container."""
        answers = []
        for one in request.container_requests:
            try:
                variables = await self._allocation.allocate(one.devices_ids)
            except (LookupError, ApiError, TransportError, TimeoutError) as error:
                await context.abort(grpc.StatusCode.INTERNAL, str(error.args[0] if error.args else error))
            answers.append(pb.ContainerAllocateResponse(envs=variables))
        return pb.AllocateResponse(container_responses=answers)

    async def PreStartContainer(  # noqa: N802
        self, request: pb.PreStartContainerRequest, context: Context
    ) -> pb.PreStartContainerResponse:
        """Is it the container that was meant?"""
        try:
            await self._allocation.verify(request.devices_ids)
        except (LookupError, ApiError, TransportError, TimeoutError, grpc.aio.AioRpcError) as error:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, f"not yet: {error}")
        return pb.PreStartContainerResponse()


class Presence:
    """Serves the socket, and is known to the kubelet for as long as it can be."""

    def __init__(self, folder: Path, servicer: Servicer, faults: Faults) -> None:
        self._folder, self._servicer, self._faults = folder, servicer, faults
        self._kubelet: tuple[int, int] | None = None

    async def run(self) -> None:
        """For ever; after a kubelet's restart, and if the socket is gone, from the beginning."""
        while True:
            server = grpc.aio.server(options=_OPTIONS)
            if "registers-before-serving" in self._faults:
                await self._register(tries=1)
            await self._serve(server)
            await self._register()
            await self._until_lost()
            await server.stop(None)

    async def _serve(self, server: grpc.aio.Server) -> None:
        (self._folder / SOCKET).unlink(missing_ok=True)
        serve(server, DEVICE_PLUGIN, self._servicer)
        server.add_insecure_port(f"unix:{self._folder / SOCKET}")
        await server.start()

    async def _register(self, tries: int = sys.maxsize) -> None:
        request = pb.RegisterRequest(
            version="v1beta1", endpoint=SOCKET, resource_name=MEMORY, options=self._servicer.options()
        )
        pause = _FIRST_PAUSE
        for _ in range(tries):
            self._kubelet = _identity(self._folder / "kubelet.sock")
            options = [("grpc.use_local_subchannel_pool", 1)]
            try:
                async with grpc.aio.insecure_channel(
                    f"unix:{self._folder / 'kubelet.sock'}", options=options
                ) as channel:
                    await stub_of(channel, REGISTRATION).Register(request, timeout=15)
                _LOG.info("the kubelet took the registration")
                return
            except grpc.aio.AioRpcError as error:
                _LOG.warning("the kubelet refused: %s", error.details())
            await asyncio.sleep(pause)
            pause = min(pause * _LONGER, _LONGEST_PAUSE)

    async def _until_lost(self) -> None:
        own = _identity(self._folder / SOCKET)
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            if "old-socket-kept" in self._faults:
                continue
            kubelet = _identity(self._folder / "kubelet.sock")
            if _identity(self._folder / SOCKET) != own or (kubelet and kubelet != self._kubelet):
                return


async def keep_published(api: Api, node: str, cards: Cards, faults: Faults) -> None:
    """Keep the number of cards, and their sizes, on the Node."""
    while True:
        await publish(api, node, cards, faults)
        await asyncio.sleep(_ASSERT_SECONDS)


async def publish(api: Api, node: str, cards: Cards, faults: Faults) -> None:
    """Write what the Node does not show. The original writes the count alone."""
    amounts = {COUNT: str(len(cards.all))}
    notes = {} if "original-options" in faults else {CARDS: note(cards.all, list(cards.unhealthy))}
    try:
        seen = await api.get(NODES, node)
        noted, shown = seen["metadata"].get("annotations") or {}, seen["status"].get("capacity") or {}
        if notes.items() <= noted.items() and amounts.items() <= shown.items():
            return
        metadata = {"metadata": {"annotations": notes}} if notes else {}
        body = {**metadata, "status": {"capacity": amounts, "allocatable": amounts}}
        await api.patch(NODES, node, body, subresource="status")
    except (ApiError, TransportError, TimeoutError) as error:
        _LOG.warning("the node kept its old count: %s", error)


async def watch(api: Api, node: str, cards: Cards, servicer: Servicer, faults: Faults) -> None:
    """Report a change of health: to the extender by the Node first, then to the kubelet."""
    while True:
        if await asyncio.to_thread(cards.look):
            await publish(api, node, cards, faults)
            await servicer.publish_health()


def _identity(path: Path) -> tuple[int, int] | None:
    """Which file is there? Its number alone may be used again."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_ctime_ns


def unit_mib(text: str) -> int:
    """``GiB``, ``MiB``, or a number of MiB. Raises ValueError."""
    return {"GiB": 1024, "MiB": 1}.get(text) or int(text.removesuffix("MiB"))


def seconds(text: str) -> float:
    """``90s`` or ``10m``. Raises ValueError."""
    return float(text[:-1]) * {"s": 1, "m": 60}[text[-1]]


def main() -> None:
    """Run until SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--folder", type=Path, help="where the kubelet's socket for plugins is")
    parser.add_argument("--resources", default="", help="the kubelet's socket of pod resources")
    parser.add_argument("--me", help="the name of the node")
    parser.add_argument("--unit", "--memory-unit", type=unit_mib, default=1024)
    parser.add_argument("--rest", type=seconds, default=1.0, help="how long an unhealthy card stays so at least")
    parser.add_argument("--limit", choices=["driver"], help="have the driver limit containers to their share of a card")
    parser.add_argument(
        "--more", default=0, type=lambda text: int(text.rstrip("%")), help="and so much of it more: 10%%"
    )
    parser.add_argument("--groups", type=Path, help="the node's /sys/fs/cgroup")
    parser.add_argument("--proc", type=Path, default=Path("/proc"), help="the node's /proc")
    for flag in ("--logtostderr", "--health-check", "--mps", "--query-kubelet"):
        parser.add_argument(flag, f"-{flag.lstrip('-')}", nargs="?", help=argparse.SUPPRESS)
    parser.add_argument("--v", "-v", help=argparse.SUPPRESS)
    parser.add_argument("--dialect", choices=[reference_faults.ORIGINAL])
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(relativeCreated)d %(message)s")
    faults = reference_faults.chosen(arguments, os.environ, "device_plugin")
    if arguments.health_check == "true":
        faults -= {"d09-no-health"}
    sys.exit(asyncio.run(_run(arguments, faults)))


async def _run(arguments: argparse.Namespace, faults: Faults) -> int:
    cards = Cards(arguments.unit, arguments.rest, time.monotonic, faults)
    salt = f"{secrets.token_hex(2)}-" if "ids-new-at-each-start" in faults else ""
    node, folder = arguments.me or os.environ["NODE_NAME"], arguments.folder or Path(_ORIGINAL_FOLDER)
    async with Api.from_kubeconfig(Path(os.environ["KUBECONFIG"])) as api:
        ledger = Ledger({card.index: card.units for card in cards.all}, faults)
        groups = arguments.groups if arguments.limit else None
        limits = Limits(api, node, cards, arguments.unit, arguments.more, groups, arguments.proc, faults)
        allocation = Allocation(api, node, cards, salt, ledger, Records(arguments.resources, faults), limits, faults)
        servicer = Servicer(cards, salt, allocation, faults)
        if servicer.message().ByteSize() > _KUBELET_BYTES and "d07-long-ids" not in faults:
            _LOG.error("the kubelet takes no list of %d ids: choose a larger --unit", len(cards.ids(salt)))
            return 1
        if arguments.resources and "forgets-at-restart" not in faults:
            await allocation.remember()
        work = (
            Presence(folder, servicer, faults).run(),
            keep_published(api, node, cards, faults),
            watch(api, node, cards, servicer, faults),
            limits.keep_looking(),
        )
        with contextlib.suppress(asyncio.CancelledError):
            all_of_it = asyncio.gather(*work)
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, all_of_it.cancel)
            await all_of_it
    return 0


if __name__ == "__main__":
    main()
