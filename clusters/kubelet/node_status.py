"""The Node object: registered at the start, its status kept in step with the devices.

Rules: Kubernetes pkg/kubelet/nodestatus and kubelet_node_status.go. A kubelet owns cpu, memory, pods, storage and what
device plugins announce; other resources in the capacity are an operator's and stay, and each allocatable amount
follows its capacity. A node that is deleted comes back with the kubelet's next start, not before.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

import httpx2

from clusters.api_client import ApiClient, ApiError
from clusters.kubelet.amounts import amount_of, is_extended
from clusters.kubelet.devices import Count
from clusters.kubelet.machine import Machine, node_info
from clusters.kubelet.pod_status import timestamp
from clusters.kubelet.pods import Object
from clusters.kubelet.timings import Timings
from clusters.resources import NODES

_LOG = logging.getLogger(__name__)

# Between two attempts while the API server does not answer, in seconds.
_RETRY_SECONDS: Final = 0.5


class NodeStatus:
    """Keeps one Node object. ``counts`` says what the device manager has; ``changed`` that it should be asked."""

    def __init__(
        self,
        client: ApiClient,
        machine: Machine,
        counts: Callable[[], Mapping[str, Count]],
        timings: Timings,
        clock: Callable[[], float],
    ) -> None:
        self._client = client
        self._machine = machine
        self._counts = counts
        self._timings = timings
        self._clock = clock
        self._port = 0
        self._seen: Object | None = None
        self._changed = asyncio.Event()

    @property
    def allocatable(self) -> dict[str, str]:
        """What pods may use now."""
        seen = (self._seen or {}).get("status") or {}
        return resources_of(self._machine, self._counts(), seen.get("capacity") or {})[1]

    def changed(self) -> None:
        """Devices changed: report soon."""
        self._changed.set()

    async def register(self, log_port: int, is_new_machine: bool) -> None:
        """Create the object or take over the one that is there; ``log_port`` is where containers' logs are served.

        On a new machine (no checkpoint) every extended resource of an old object is set to 0 first: the devices and
        amounts that it shows belonged to the machine before.
        """
        self._port = log_port
        while True:
            try:
                await self._register(is_new_machine)
                return
            except (httpx2.TransportError, ApiError) as error:
                if isinstance(error, ApiError) and error.code < 500:
                    raise
                _LOG.warning("no answer, trying again node=%s error=%r", self._machine.name, error)
                await asyncio.sleep(_RETRY_SECONDS)

    async def _register(self, is_new_machine: bool) -> None:
        metadata = {"name": self._machine.name, "labels": self._machine.all_labels}
        try:
            self._seen = await self._client.create({"apiVersion": "v1", "kind": NODES.kind, "metadata": metadata})
        except ApiError as error:
            if error.code != 409:
                raise
            self._seen = await self._client.patch(NODES, self._machine.name, {"metadata": metadata})
            if is_new_machine:
                await self._zero((self._seen.get("status") or {}).get("capacity") or {})
        await self._report(heartbeat=True)

    async def follow(self) -> None:
        """Watch the object for amounts that others set; ends by cancellation."""
        async for kind, node in self._client.watch(NODES, field_selector=f"metadata.name={self._machine.name}"):
            if kind == "DELETED":
                _LOG.warning("node object deleted, it comes back at the next start node=%s", self._machine.name)
                self._seen = None
            elif kind != "SYNCED":
                self._seen = node
                self._changed.set()

    async def run(self) -> None:
        """Report changes at once and the node's health now and then; ends by cancellation."""
        while True:
            heartbeat = False
            try:
                # Not wait_for: in Python 3.11 it can swallow a cancellation that meets the event.
                async with asyncio.timeout(self._timings.heartbeat):
                    await self._changed.wait()
            except TimeoutError:
                heartbeat = True
            await asyncio.sleep(self._timings.node_sync)
            self._changed.clear()
            try:
                await self._report(heartbeat)
            except (ApiError, httpx2.TransportError) as error:
                _LOG.warning("node status not written, trying again node=%s error=%r", self._machine.name, error)
                self._changed.set()
                await asyncio.sleep(_RETRY_SECONDS)

    async def _report(self, heartbeat: bool) -> None:
        if self._seen is None:
            return
        status = self._seen.get("status") or {}
        patch = difference(status, resources_of(self._machine, self._counts(), status.get("capacity") or {}))
        if heartbeat:
            patch |= self._health(status)
        if patch:
            body = {"status": patch}
            self._seen = await self._client.patch(NODES, self._machine.name, body, subresource="status")

    async def _zero(self, capacity: Mapping[str, str]) -> None:
        zeros = {name: "0" for name in capacity if is_extended(name)}
        if zeros:
            body = {"status": {"capacity": zeros, "allocatable": zeros}}
            self._seen = await self._client.patch(NODES, self._machine.name, body, subresource="status")

    def _health(self, status: Object) -> dict[str, Any]:
        now = timestamp(self._clock())
        old = {condition["type"]: condition for condition in status.get("conditions") or ()}
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "KubeletReady",
            "message": "the stand-in kubelet is posting ready status",
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        }
        before = old.get("Ready", {})
        if before.get("status") == "True":
            ready["lastTransitionTime"] = before.get("lastTransitionTime") or now
        return {
            "conditions": [ready],
            "addresses": [
                {"type": "InternalIP", "address": self._machine.address},
                {"type": "Hostname", "address": self._machine.name},
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self._port}},
            "nodeInfo": node_info(self._machine),
        }


def resources_of(
    machine: Machine, counts: Mapping[str, Count], capacity: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Capacity and allocatable as they should be, given the capacity that the object shows now."""
    foreign = {name: text for name, text in capacity.items() if name not in machine.resources and name not in counts}
    plain = foreign | machine.resources
    return (
        plain | {name: str(count.capacity) for name, count in counts.items()},
        plain | {name: str(count.allocatable) for name, count in counts.items()},
    )


def difference(status: Object, wanted: tuple[Mapping[str, str], Mapping[str, str]]) -> dict[str, Any]:
    """The patch of ``status`` that brings both maps to what is wanted; {} where nothing differs.

    Capacity only gains keys. An amount that others allocated without a capacity is taken away, as null in the patch.
    """
    patch: dict[str, Any] = {}
    for key, amounts in zip(("capacity", "allocatable"), wanted, strict=True):
        now: Mapping[str, str] = status.get(key) or {}
        changes: dict[str, str | None] = {n: t for n, t in amounts.items() if n not in now or not _equal(now[n], t)}
        changes |= {name: None for name in now if name not in amounts}
        if changes:
            patch[key] = changes
    return patch


def _equal(first: str, second: str) -> bool:
    return first == second or amount_of(str(first)) == amount_of(second)
