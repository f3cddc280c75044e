"""The Node object: registered at the start, its status kept in step with the devices; and its Lease.

Rules: Kubernetes pkg/kubelet/nodestatus and kubelet_node_status.go. A kubelet owns cpu, memory, pods, storage and what
device plugins announce; other resources in the capacity are an operator's and stay, and each allocatable amount
follows its capacity. A node that is deleted comes back with the kubelet's next start, not before; one that another client
creates again is taken over immediately. Labels of its own a kubelet gives to a new node only.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from clusters.amounts import amount_of
from clusters.api.api_client import MERGE_PATCH, ApiClient, ApiError
from clusters.api.connection import TransportError
from clusters.api.resources import LEASES, NODES
from clusters.kubelet.kubelet_devices import Count
from clusters.kubelet.machine import Machine, Timings
from clusters.kubelet.pod_status import timestamp
from clusters.kubelet.pods import Object

_LOG = logging.getLogger(__name__)

# Between two attempts while the API server does not answer, in seconds.
_RETRY_SECONDS: Final = 0.5
_LEASE_NAMESPACE: Final = "kube-node-lease"
# How long the node counts as alive without a renewal of its lease, in seconds.
_DURATION_SECONDS: Final = 40
_CONDITIONS: Final = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "the stand-in kubelet is posting ready status"),
)
_ANNOTATIONS: Final = {"volumes.kubernetes.io/controller-managed-attach-detach": "true"}


class NodeStatus:
    """Keeps one Node and its Lease. ``counts`` gives the device manager's amounts; ``changed`` means that they must be read."""

    def __init__(
        self,
        client: ApiClient,
        machine: Machine,
        counts: Callable[[], Mapping[str, Count]],
        timings: Timings,
        clock: Callable[[], float],
        boot: int,
        told: Callable[[Collection[str]], None],
    ) -> None:
        """``told`` gets the resources of ``counts`` that the object shows."""
        self._client = client
        self._machine = machine
        self._counts = counts
        self._timings = timings
        self._clock = clock
        self._boot = boot
        self._told = told
        self._port = 0
        self._seen: Object | None = None
        self._changed = asyncio.Event()
        self._reported = 0.0

    @property
    def allocatable(self) -> dict[str, str]:
        """The amounts that pods may use now."""
        seen = (self._seen or {}).get("status") or {}
        return resources_of(self._machine, self._counts(), seen.get("capacity") or {})[1]

    def changed(self) -> None:
        """Devices changed: report soon."""
        self._changed.set()

    async def register(self, log_port: int) -> None:
        """Create the object or take over the existing one; ``log_port`` is that of the log endpoint.

        A kubelet of 1.30.14 first sets every extended resource of an old object to 0 if its folder of plugins is empty; one of
        1.36.3, and this one, never finds it empty.
        """
        self._port = log_port
        while True:
            try:
                await self._register()
                return
            except (TransportError, ApiError) as error:
                if isinstance(error, ApiError) and error.code < 500:
                    raise
                _LOG.warning("no answer, trying again node=%s error=%r", self._machine.name, error)
                await asyncio.sleep(_RETRY_SECONDS)

    async def _register(self) -> None:
        capacity, allocatable = resources_of(self._machine, self._counts(), {})
        metadata = {
            "name": self._machine.name,
            "labels": {**self._machine.plain_labels, **self._machine.labels},
            "annotations": _ANNOTATIONS,
        }
        status = {"capacity": capacity, "allocatable": allocatable, **self._facts(), "conditions": self._conditions({})}
        node = {"apiVersion": "v1", "kind": NODES.kind, "metadata": metadata, "status": status}
        is_due = False
        try:
            self._seen = await self._client.create(node)
            self._reported = asyncio.get_running_loop().time()
        except ApiError as error:
            if error.code != 409:
                raise
            is_due = True
            kept = {"metadata": {"labels": self._machine.plain_labels, "annotations": _ANNOTATIONS}}
            self._seen = await self._client.patch(NODES, self._machine.name, kept)
        await self._report(is_due)

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
        """Report changes immediately, and now and then that nothing changed; ends by cancellation."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                # Not wait_for: in Python 3.11 it can swallow a cancellation that meets the event.
                async with asyncio.timeout_at(self._reported + self._timings.report):
                    await self._changed.wait()
            except TimeoutError:
                self._reported = loop.time()
            await asyncio.sleep(self._timings.node_sync)
            is_due = not self._changed.is_set()
            self._changed.clear()
            try:
                await self._report(is_due)
            except (ApiError, TransportError) as error:
                _LOG.warning("node status not written, trying again node=%s error=%r", self._machine.name, error)
                self._changed.set()
                await asyncio.sleep(_RETRY_SECONDS)

    async def _report(self, is_due: bool) -> None:
        """Write the differences to the object, and if a report is due also that nothing changed."""
        if self._seen is None:
            return
        status = self._seen.get("status") or {}
        counts = self._counts()
        patch = difference(status, resources_of(self._machine, counts, status.get("capacity") or {}))
        patch |= {name: value for name, value in self._facts().items() if not _covers(status.get(name), value)}
        conditions = self._conditions({one["type"]: one for one in status.get("conditions") or ()})
        lasting = [{name: value for name, value in one.items() if not name.endswith("Time")} for one in conditions]
        if is_due or patch or not _covers(status.get("conditions"), lasting):
            patch["conditions"] = conditions
            body = {"status": patch}
            written = await self._client.patch(NODES, self._machine.name, body, subresource="status")
            self._reported = asyncio.get_running_loop().time()
            # Meanwhile the Node may have been deleted, and be another one.
            if self._seen is not None and self._seen["metadata"]["uid"] == written["metadata"]["uid"]:
                self._seen = written
        self._told([resource for resource, count in counts.items() if not count.capacity])

    def _facts(self) -> dict[str, Any]:
        return {
            "addresses": [
                {"type": "InternalIP", "address": self._machine.address},
                {"type": "Hostname", "address": self._machine.name},
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self._port}},
            "nodeInfo": self._machine.information(self._boot),
        }

    def _conditions(self, before: Mapping[str, Object]) -> list[Object]:
        """A healthy kubelet's, each with the time at which it last became so."""
        now = timestamp(self._clock())
        conditions = []
        for name, status, reason, message in _CONDITIONS:
            old = before.get(name, {})
            since = old.get("lastTransitionTime") if old.get("status") == status else None
            words = {"type": name, "status": status, "reason": reason, "message": message}
            conditions.append(words | {"lastHeartbeatTime": now, "lastTransitionTime": since or now})
        return conditions

    async def keep_lease(self) -> None:
        """Renew the node's Lease now and then, the sign of life that the node lifecycle controller looks at; ends by cancellation.

        Rules: Kubernetes pkg/kubelet and component-helpers' lease controller. Without a Node there is no Lease; one that was
        deleted is made again.
        """
        while True:
            try:
                await self._renew_lease()
            except (ApiError, TransportError) as error:
                _LOG.warning("lease not renewed, trying again node=%s error=%r", self._machine.name, error)
            await asyncio.sleep(self._timings.heartbeat)

    async def _renew_lease(self) -> None:
        name = self._machine.name
        now = datetime.fromtimestamp(self._clock(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": name, "leaseDurationSeconds": _DURATION_SECONDS, "renewTime": now}
        try:
            await self._client.patch(LEASES, name, {"spec": spec}, _LEASE_NAMESPACE, content_type=MERGE_PATCH)
        except ApiError as error:
            if error.code != 404:
                raise
            node = await self._client.get(NODES, name)
            owner = {"apiVersion": "v1", "kind": NODES.kind, "name": name, "uid": node["metadata"]["uid"]}
            metadata = {"name": name, "namespace": _LEASE_NAMESPACE, "ownerReferences": [owner]}
            lease = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata, "spec": spec}
            await self._client.create(lease)


def _covers(there: Any, wanted: Any) -> bool:
    """Does the object hold at least the wanted fields? Entries of lists in any order."""
    if isinstance(wanted, Mapping):
        return isinstance(there, Mapping) and all(_covers(there.get(name), value) for name, value in wanted.items())
    if isinstance(wanted, Sequence) and not isinstance(wanted, str):
        return all(any(_covers(one, value) for one in there or ()) for value in wanted)
    return bool(there == wanted)


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
    """The patch of ``status`` that brings both maps to the wanted amounts; {} if nothing differs.

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
