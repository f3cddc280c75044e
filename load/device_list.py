"""The cost of a long device list: built, sent, received; and the device plugin's use while nothing happens.

``make bench``: the device plugin as a process of its own on simulated cards, beside an embedded API server and a kubelet that
only registers and receives. The list is as long as no real one should be (``--max-ids`` overrides the guard); the floor is
the same bytes from a server that has them ready and does nothing else (``load.idle_server``). Memory and the bytes are the
plugin's; times are this machine's.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio

from clusters.api.api_client import ApiClient
from clusters.api.resources import NODES
from clusters.embedded.embedded_control_plane import EmbeddedControlPlane
from clusters.kubelet.proto import deviceplugin_pb2 as pb
from clusters.kubelet.proto import deviceplugin_pb2_grpc as pb_grpc
from clusters.processes.program import Program
from clusters.simulated_node import SimulatedNode, environment_of_programs
from clusters.targets import load_target
from load.load_reports import Promise
from load.readings import mib

_NODE: Final = "bench"
_SOCKET: Final = "aliyungpushare.sock"
# The promises of the project: ids, seconds, MiB of the plugin with such a list, MiB at rest.
_IDS: Final = 68_000
_SECONDS: Final = 0.5
_LIST_MIB: Final = 150.0
_REST_MIB: Final = 60.0
# 8 cards of 80 GiB make 72,816 ids of 9 MiB: the first whole number of MiB above the promise.
_BOX: Final = "a100x8"
_UNIT: Final = "9MiB"
# Before the rest is measured, in seconds: what a start leaves to do is done.
_SETTLE_SECONDS: Final = 2.0
_ANY_SIZE: Final = [("grpc.max_receive_message_length", -1)]


@dataclass(frozen=True, slots=True)
class Received:
    """One list: ids, bytes, and the seconds from the question to the last id."""

    ids: int
    size: int
    seconds: float


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the figures; exit code 0, 99 if a promise is broken."""
    parser = argparse.ArgumentParser(prog="python -m load.device_list", description=__doc__)
    parser.add_argument("--rounds", type=int, default=9, help="how often the list is asked for (default: %(default)s)")
    parser.add_argument("--rest-seconds", type=float, default=20.0, help="how long it rests (default: %(default)s)")
    return asyncio.run(measure(parser.parse_args(argv)))


async def measure(arguments: argparse.Namespace) -> int:
    """Both plugins, one after the other."""
    async with plugin("--memory-unit", _UNIT, "--max-ids", "1000000") as (folder, program, node):
        first = await receive(folder / _SOCKET)
        again = statistics.median([(await receive(folder / _SOCKET)).seconds for _ in range(arguments.rounds)])
        sick = await receive(folder / _SOCKET, after=lambda: node.fake_nvml("xid", "3", "48"))
        peak = memory(program, "VmHWM")
    async with plugin() as (folder, program, _):
        share, rest = await at_rest(folder, program, arguments.rest_seconds), memory(program, "VmRSS")
    async with floor(first.ids) as (folder, program):
        ready = statistics.median([(await receive(folder / _SOCKET)).seconds for _ in range(arguments.rounds)])
        idle = await at_rest(folder, program, arguments.rest_seconds)
    promises = [
        Promise("seconds of the first list (built, sent, received)", _SECONDS, first.seconds),
        Promise("most memory of the plugin with that list", _LIST_MIB, peak, "MiB"),
        Promise("memory of a plugin at rest", _REST_MIB, rest, "MiB"),
    ]
    print(f"list of {first.ids} ids, {first.size} bytes ({first.size / first.ids:.1f} an id)")
    print("\n".join(promise.text() for promise in promises))
    print(f"the same list again takes {again:.3f} s, {again / ready:.2f} of a server that has it ready")
    part = sick.size / first.size
    print(f"a card falls ill: Xid to the new list takes {sick.seconds:.3f} s and {part:.3f} of one list's bytes")
    print(f"at rest a plugin takes {share:.2%} of a processor, a server that does nothing {idle:.2%}")
    return 0 if first.ids >= _IDS and all(promise.is_kept for promise in promises) else 99


class Registry(pb_grpc.RegistrationServicer):
    """A kubelet as far as registering goes."""

    def __init__(self) -> None:
        self.registered = asyncio.Event()

    async def Register(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Taken."""
        if request.endpoint == _SOCKET:
            self.registered.set()
        return pb.Empty()


@asynccontextmanager
async def plugin(*flags: str) -> AsyncIterator[tuple[Path, Program, SimulatedNode]]:
    """A plugin that is registered: the folder of its socket, its process, and its simulated cards."""
    async with AsyncExitStack() as stack:
        folder = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="gs-", dir="/tmp"))
        )  # socket paths are short
        # With TLS and an authority of its own, as a cluster has it: that is part of the plugin's memory.
        server = EmbeddedControlPlane(folder)
        await server.start(controllers=False)
        stack.push_async_callback(server.stop)
        node = SimulatedNode(_NODE, folder, {**environment_of_programs(os.environ), "LOG_LEVEL": "warn"})
        await node.fake_nvml("init", "--box", _BOX)
        async with ApiClient.from_kubeconfig(server.kubeconfig) as api:
            await api.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": _NODE}})
            info = {"status": {"nodeInfo": {"kubeletVersion": "v1.30.0", "bootID": "bench"}}}
            await api.patch(NODES, _NODE, info, subresource="status")
        registry, kubelet, sockets = Registry(), grpc.aio.server(), folder / "device-plugins"
        sockets.mkdir()
        pb_grpc.add_RegistrationServicer_to_server(registry, kubelet)
        kubelet.add_insecure_port(f"unix:{sockets}/kubelet.sock")
        await kubelet.start()
        stack.push_async_callback(kubelet.stop, 0)
        program = node.device_plugin(load_target("gpushare"), server.kubeconfig, flags)
        stack.push_async_callback(program.stop)

        async def is_ready() -> bool:
            return registry.registered.is_set()

        await program.launch(is_ready)
        yield sockets, program, node


async def receive(socket: Path, after: Callable[[], Awaitable[object]] | None = None) -> Received:
    """One stream's first list; or the next one ``after`` something has happened, from when it had."""
    async with grpc.aio.insecure_channel(f"unix:{socket}", options=_ANY_SIZE) as channel:
        began = time.perf_counter()
        stream = pb_grpc.DevicePluginStub(channel).ListAndWatch(pb.Empty())
        message = await stream.read()
        if after is not None:
            await after()
            began = time.perf_counter()
            message = await stream.read()
        seconds = time.perf_counter() - began
        stream.cancel()
    return Received(len(message.devices), message.ByteSize(), seconds)


async def at_rest(folder: Path, program: Program, seconds: float) -> float:
    """The part of a processor that a program takes while a kubelet holds its lists and nothing happens."""
    async with AsyncExitStack() as stack:
        for socket in folder.glob("aliyun*.sock"):
            channel = await stack.enter_async_context(grpc.aio.insecure_channel(f"unix:{socket}", options=_ANY_SIZE))
            stream = pb_grpc.DevicePluginStub(channel).ListAndWatch(pb.Empty())
            stack.callback(stream.cancel)
            await stream.read()
        await asyncio.sleep(_SETTLE_SECONDS)
        began, cpu = time.monotonic(), cpu_seconds(program)
        await asyncio.sleep(seconds)
        return (cpu_seconds(program) - cpu) / (time.monotonic() - began)


@asynccontextmanager
async def floor(ids: int) -> AsyncIterator[tuple[Path, Program]]:
    """Two servers of this stack in one process that have a list of this length ready, send it and do nothing else."""
    with tempfile.TemporaryDirectory(prefix="gs-", dir="/tmp") as name:
        folder = Path(name)
        sockets = [str(folder / socket) for socket in (_SOCKET, "aliyungpushare-slot.sock")]
        argv = [sys.executable, "-m", "load.idle_server", str(ids), *sockets]
        program = Program("idle", argv, os.environ, folder / "idle.log")

        async def is_ready() -> bool:
            return program.log().startswith("serves")

        try:
            await program.launch(is_ready)
            yield folder, program
        finally:
            await program.stop()


def memory(program: Program, row: str) -> float:
    """Its MiB: VmRSS now, VmHWM at most."""
    assert program.pid is not None
    return mib(program.pid, row)


def cpu_seconds(program: Program) -> float:
    """Seconds of processor that a process has had, its threads too, as the scheduler counts them: not in ticks."""
    threads = Path(f"/proc/{program.pid}/task").glob("*/schedstat")
    return sum(int(thread.read_text(encoding="ascii").split()[0]) for thread in threads) / 1e9


if __name__ == "__main__":
    sys.exit(main())
