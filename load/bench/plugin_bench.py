"""The cost of a long device list: built, sent, received; the device plugin's use while nothing happens; the time of an Allocate.

The device plugin is a process of its own on simulated cards, beside an embedded API server and a kubelet that only registers and
receives. The list is as long as no real one should be (``--max-ids`` overrides the guard).
"""

from __future__ import annotations

import asyncio
import os
import random
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import grpc
import grpc.aio

from clusters.api.api_client import ApiClient
from clusters.api.resources import NODES, PODS
from clusters.embedded.embedded_control_plane import EmbeddedControlPlane
from clusters.kubelet.kubelet_cards import Cards
from clusters.kubelet.memory_limits import MemoryLimits
from clusters.kubelet.proto import deviceplugin_pb2 as pb
from clusters.kubelet.proto.grpc_services import DEVICE_PLUGIN, REGISTRATION, serve, stub_of
from clusters.processes.program import Program
from clusters.provider import NodeSpec
from clusters.simulated_node import SimulatedNode, environment_of_programs, new_cards
from clusters.targets import load_target
from load.bench.bench_figures import percentile
from load.readings import mib

_NODE: Final = "bench"
_SOCKET: Final = "aliyungpushare.sock"
# 8 cards of 80 GiB make 72,816 ids of 9 MiB: the first whole number of MiB with more than the 68,000 ids of the promise.
_BOX: Final = "a100x8"
_UNIT: Final = "9MiB"
# How often the list is asked for again.
_ROUNDS: Final = 9
# Before the rest is measured, in seconds: what a start leaves to do is done.
_SETTLE_SECONDS: Final = 2.0
_ANY_SIZE: Final = [("grpc.max_receive_message_length", -1)]
# The first ones are slower, and are not counted.
_WARM_UP: Final = 20
_MEM: Final = "aliyun.com/gpu-mem"
_PREFIX: Final = "ALIYUN_COM_GPU_MEM_"
_VARIANTS: Final[Mapping[str, Sequence[str]]] = {
    "off": ("--memory-limit", "off"),
    "driver": ("--memory-limit", "driver", "--cgroup-root", "{cgroup_root}"),
}


class _Received(NamedTuple):
    """One list: ids, bytes, and the seconds from the question to the last id."""

    ids: int
    size: int
    seconds: float


async def measure_list(rest_seconds: float) -> dict[str, float]:
    """Two plugins, one after the other; seconds, MiB, and parts of one list's bytes and of a processor. Raises ClusterError."""
    async with _plugin("--memory-unit", _UNIT, "--max-ids", "1000000") as (sockets, program, node, _):
        first = await _receive(sockets / _SOCKET)
        again = statistics.median([(await _receive(sockets / _SOCKET)).seconds for _ in range(_ROUNDS)])
        unhealthy = await _receive(sockets / _SOCKET, after=lambda: node.fake_nvml("xid", "3", "48"))
        list_mib = mib(program.pid or 0, "VmHWM")
    async with _plugin() as (sockets, program, *_):
        rest_share = await _at_rest(sockets, program.pid or 0, rest_seconds)
        rest_mib = mib(program.pid or 0, "VmRSS")
    return {
        "ids": first.ids,
        "bytes": first.size,
        "first_seconds": round(first.seconds, 3),
        "again_seconds": round(again, 3),
        "unhealthy_seconds": round(unhealthy.seconds, 3),
        "unhealthy_bytes_share": round(unhealthy.size / first.size, 3),
        "list_mib": round(list_mib, 1),
        "rest_mib": round(rest_mib, 1),
        "rest_share": round(rest_share, 5),
    }


class _Registry:
    """A kubelet as far as registering goes."""

    def __init__(self) -> None:
        self.registered = asyncio.Event()

    async def Register(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Taken."""
        if request.endpoint == _SOCKET:
            self.registered.set()
        return pb.Empty()


class _Bench(NamedTuple):
    """A plugin that is registered: the folder of its sockets, its process, its simulated cards, and its API server."""

    sockets: Path
    program: Program
    node: SimulatedNode
    kubeconfig: Path


@asynccontextmanager
async def _plugin(*flags: str, driver: str | None = None) -> AsyncIterator[_Bench]:
    """A plugin with these flags, on eight cards; its node can limit memory if the driver can."""
    async with AsyncExitStack() as stack:
        # Paths of sockets are short.
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gs-", dir="/tmp")))
        # With TLS and an authority of its own, as a cluster has it: that is part of the plugin's memory.
        server = EmbeddedControlPlane(folder)
        await server.start(controllers=False)
        stack.push_async_callback(server.stop)
        node = SimulatedNode(_NODE, folder, {**environment_of_programs(os.environ), "LOG_LEVEL": "warn"})
        spec = NodeSpec(_NODE, _BOX, driver)
        with new_cards(node.state_file, spec) as state:
            MemoryLimits(
                folder / "cgroup", folder / "proc", Cards(state), spec.memory_limits, folder / "cdi"
            ).show_kernel()
        async with ApiClient.from_kubeconfig(server.kubeconfig) as api:
            await api.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": _NODE}})
            info = {"status": {"nodeInfo": {"kubeletVersion": "v1.30.0", "bootID": "bench"}}}
            await api.patch(NODES, _NODE, info, subresource="status")
        registry, kubelet, sockets = _Registry(), grpc.aio.server(), folder / "device-plugins"
        sockets.mkdir()
        serve(kubelet, REGISTRATION, registry)
        kubelet.add_insecure_port(f"unix:{sockets}/kubelet.sock")
        await kubelet.start()
        stack.push_async_callback(kubelet.stop, 0)
        program = node.device_plugin(load_target("gpushare"), server.kubeconfig, flags)
        stack.push_async_callback(program.stop)

        async def is_ready() -> bool:
            return registry.registered.is_set()

        await program.launch(is_ready)
        yield _Bench(sockets, program, node, server.kubeconfig)


async def _receive(socket: Path, after: Callable[[], Awaitable[object]] | None = None) -> _Received:
    """One stream's first list; or the next one ``after`` something has happened, from when it had."""
    async with grpc.aio.insecure_channel(f"unix:{socket}", options=_ANY_SIZE) as channel:
        began = time.perf_counter()
        stream = stub_of(channel, DEVICE_PLUGIN).ListAndWatch(pb.Empty())
        message = await stream.read()
        if after is not None:
            await after()
            began = time.perf_counter()
            message = await stream.read()
        seconds = time.perf_counter() - began
        stream.cancel()
    return _Received(len(message.devices), message.ByteSize(), seconds)


async def _at_rest(sockets: Path, pid: int, seconds: float) -> float:
    """The part of a processor that a plugin takes while a kubelet holds its lists and nothing happens."""
    async with AsyncExitStack() as stack:
        for socket in sockets.glob("aliyun*.sock"):
            channel = await stack.enter_async_context(grpc.aio.insecure_channel(f"unix:{socket}", options=_ANY_SIZE))
            stream = stub_of(channel, DEVICE_PLUGIN).ListAndWatch(pb.Empty())
            stack.callback(stream.cancel)
            await stream.read()
        await asyncio.sleep(_SETTLE_SECONDS)
        began, cpu = time.monotonic(), _processor_seconds(pid)
        await asyncio.sleep(seconds)
        return (_processor_seconds(pid) - cpu) / (time.monotonic() - began)


def _processor_seconds(pid: int) -> float:
    """The time of all threads as the scheduler counts it: not in ticks, of which a program at rest takes few."""
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(thread.read_text(encoding="ascii").split()[0]) for thread in threads) / 1e9


class _Asked(NamedTuple):
    """One of the plugins, the milliseconds of its answers, and the seconds of a processor that it took from pod to pod."""

    bench: _Bench
    api: ApiClient
    stub: Any
    ids: list[str]
    times: list[float]
    cpu: list[float]


async def measure_allocations(count: int) -> dict[str, dict[str, float]]:
    """Milliseconds and MiB, without and with limits. In each round the plugins are asked in another order. Raises ClusterError."""
    async with AsyncExitStack() as stack:
        asked = dict[str, _Asked]()
        for name, flags in _VARIANTS.items():
            bench = await stack.enter_async_context(_plugin(*flags, driver="620"))
            api = await stack.enter_async_context(ApiClient.from_kubeconfig(bench.kubeconfig))
            path = f"unix:{bench.sockets / _SOCKET}"
            channel = await stack.enter_async_context(grpc.aio.insecure_channel(path))
            stub = stub_of(channel, DEVICE_PLUGIN)
            # A plugin without a watcher registers again.
            stream = stub.ListAndWatch(pb.Empty())
            stack.callback(stream.cancel)
            ids = [one.ID for one in (await stream.read()).devices]
            asked[name] = _Asked(bench, api, stub, ids, [], [])
        order = random.Random(1)
        for number in range(_WARM_UP + count):
            for one in order.sample(list(asked.values()), len(asked)):
                await _allocate(one, number)
        return {
            name: {
                "cpu_ms": round(statistics.mean(one.cpu[_WARM_UP:]) * 1000, 2),
                "p50_ms": round(percentile(one.times[_WARM_UP:], 0.5), 2),
                "p99_ms": round(percentile(one.times[_WARM_UP:], 0.99), 2),
                "mib": round(mib(one.bench.program.pid or 0, "VmRSS"), 1),
            }
            for name, one in asked.items()
        }


async def _allocate(asked: _Asked, number: int) -> None:
    """A pod of one unit comes, is answered, and goes."""
    name, pid = f"pod-{number}", asked.bench.program.pid or 0
    before = _processor_seconds(pid)
    await asked.api.create(_pod(name, number))
    chosen = pb.ContainerPreferredAllocationRequest(available_deviceIDs=asked.ids, allocation_size=1)
    preferred = await asked.stub.GetPreferredAllocation(pb.PreferredAllocationRequest(container_requests=[chosen]))
    ids = list(preferred.container_responses[0].deviceIDs)
    request = pb.AllocateRequest(container_requests=[pb.ContainerAllocateRequest(devices_ids=ids)])
    began = time.perf_counter()
    await asked.stub.Allocate(request)
    asked.times.append((time.perf_counter() - began) * 1000)
    await asked.api.delete(PODS, name, "default")
    asked.cpu.append(_processor_seconds(pid) - before)


def _pod(name: str, number: int) -> dict[str, Any]:
    values = {"IDX": "0", "POD": "1", "DEV": "79", "ASSIGNED": "false", "ASSUME_TIME": str(10**18 + number)}
    annotations = {f"{_PREFIX}{key}": value for key, value in values.items()}
    container = {"name": "main", "image": "pause", "resources": {"limits": {_MEM: "1"}}}
    metadata = {"name": name, "namespace": "default", "annotations": annotations}
    spec = {"nodeName": _NODE, "containers": [container], "terminationGracePeriodSeconds": 0}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
