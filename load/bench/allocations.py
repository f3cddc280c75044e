"""The time of an Allocate and the memory of the device plugin, without and with limits by the driver: plugins asked in turn."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any, Final, NamedTuple

import grpc.aio

from clusters.api.api_client import ApiClient
from clusters.api.resources import PODS
from clusters.kubelet.proto import deviceplugin_pb2 as pb
from clusters.kubelet.proto import deviceplugin_pb2_grpc as pb_grpc
from load.bench.bench_figures import percentile
from load.bench.device_list import NODE, SOCKET, Bench, plugin, processor_seconds
from load.readings import mib

# The first ones are slower, and are not counted.
_WARM_UP: Final = 20
_MEM: Final = "aliyun.com/gpu-mem"
_PREFIX: Final = "ALIYUN_COM_GPU_MEM_"
_VARIANTS: Final[Mapping[str, Sequence[str]]] = {
    "off": ("--memory-limit", "off"),
    "driver": ("--memory-limit", "driver", "--cgroup-root", "{cgroup_root}"),
}


class _Asked(NamedTuple):
    """One of the plugins, the milliseconds of its answers, and the seconds of a processor that it took from pod to pod."""

    bench: Bench
    api: ApiClient
    stub: Any
    ids: list[str]
    times: list[float]
    cpu: list[float]


async def measure(count: int, variants: Mapping[str, Sequence[str]] = _VARIANTS) -> dict[str, dict[str, float]]:
    """By variant, milliseconds and MiB. In each round the plugins are asked in another order. Raises ClusterError."""
    async with AsyncExitStack() as stack:
        asked = dict[str, _Asked]()
        for name, flags in variants.items():
            bench = await stack.enter_async_context(plugin(*flags, driver="620"))
            api = await stack.enter_async_context(ApiClient.from_kubeconfig(bench.kubeconfig))
            path = f"unix:{bench.sockets / SOCKET}"
            channel = await stack.enter_async_context(grpc.aio.insecure_channel(path))
            stub = pb_grpc.DevicePluginStub(channel)
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
    before = processor_seconds(pid)
    await asked.api.create(_pod(name, number))
    chosen = pb.ContainerPreferredAllocationRequest(available_deviceIDs=asked.ids, allocation_size=1)
    preferred = await asked.stub.GetPreferredAllocation(pb.PreferredAllocationRequest(container_requests=[chosen]))
    ids = list(preferred.container_responses[0].deviceIDs)
    request = pb.AllocateRequest(container_requests=[pb.ContainerAllocateRequest(devices_ids=ids)])
    began = time.perf_counter()
    await asked.stub.Allocate(request)
    asked.times.append((time.perf_counter() - began) * 1000)
    await asked.api.delete(PODS, name, "default")
    asked.cpu.append(processor_seconds(pid) - before)


def _pod(name: str, number: int) -> dict[str, Any]:
    values = {"IDX": "0", "POD": "1", "DEV": "79", "ASSIGNED": "false", "ASSUME_TIME": str(10**18 + number)}
    annotations = {f"{_PREFIX}{key}": value for key, value in values.items()}
    container = {"name": "main", "image": "pause", "resources": {"limits": {_MEM: "1"}}}
    metadata = {"name": name, "namespace": "default", "annotations": annotations}
    spec = {"nodeName": NODE, "containers": [container], "terminationGracePeriodSeconds": 0}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
