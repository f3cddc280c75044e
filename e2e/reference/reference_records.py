"""The kubelet's records of the ids of each container, through its PodResources socket."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Final

import grpc
import grpc.aio

from clusters.kubelet.proto import podresources_pb2 as pr
from clusters.kubelet.proto import podresources_pb2_grpc as pr_grpc
from e2e.reference.reference_pods import MEMORY, Faults

_TRIES: Final = 50
_PAUSE_SECONDS: Final = 0.1
_OPTIONS: Final = [
    ("grpc.default_authority", "localhost"),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.max_receive_message_length", -1),
]
# Namespace, pod, container.
Holder = tuple[str, str, str]


class Records:
    """One question to the socket for each call."""

    def __init__(self, socket: str, faults: Faults) -> None:
        self._socket, self._faults = socket, faults

    async def holders(self) -> dict[Holder, frozenset[str]]:
        """The ids of each container. Raises grpc.aio.AioRpcError."""
        listed = await self._list()
        found: dict[Holder, frozenset[str]] = {}
        for pod in listed.pod_resources:
            for container in pod.containers:
                groups = [set(one.device_ids) for one in container.devices if one.resource_name == MEMORY]
                if "first-group-alone" in self._faults:
                    groups = groups[:1]
                if groups:
                    found[pod.namespace, pod.name, container.name] = frozenset[str]().union(*groups)
        return found

    async def holder(self, ids: Collection[str]) -> Holder | None:
        """The container that has these ids, or some of them if an init container had more."""
        wanted, found = set(ids), await self.holders()
        if "first-group-alone" in self._faults:
            return next((holder for holder, held in found.items() if held >= wanted), None)
        return next((holder for holder, held in found.items() if held & wanted), None)

    async def _list(self) -> pr.ListPodResourcesResponse:
        for number in range(_TRIES):
            try:
                async with grpc.aio.insecure_channel(f"unix:{self._socket}", options=_OPTIONS) as channel:
                    stub = pr_grpc.PodResourcesListerStub(channel)
                    listed: pr.ListPodResourcesResponse = await stub.List(pr.ListPodResourcesRequest(), timeout=20)
                    return listed
            except grpc.aio.AioRpcError as error:
                is_limit = error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED and "larger than max" not in str(error)
                if number == _TRIES - 1 or not is_limit:
                    raise
                await asyncio.sleep(_PAUSE_SECONDS)
        raise AssertionError("the last try returns or raises")
