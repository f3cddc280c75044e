"""Tells people what became of a pod: its PodScheduled condition, its nominated node, and events on it.

Written by one task in the order of the decisions, so that no decision waits for it. A failed write is logged
and dropped: the next attempt reports again.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from clusters.api.api_client import ApiClient, Object, uid_of
from clusters.api.resources import PODS
from clusters.embedded.apiserver.update_rules import rfc3339
from clusters.embedded.scheduling.pod_fields import full_name, nominated_node_of, scheduler_of

logger = logging.getLogger(__name__)

UNSCHEDULABLE = "Unschedulable"
SCHEDULER_ERROR = "SchedulerError"
# Bytes of an event's text; the API server refuses longer ones.
LONGEST_MESSAGE = 1024
# Reports not written yet, and events that are not written twice; more are not worth the memory.
MOST_WAITING = 10_000
MOST_REMEMBERED = 4096


@dataclass(frozen=True, slots=True)
class Report:
    """One thing to write: an event about the pod, and what its status gets."""

    pod: Object
    event: Object
    status: Object


class Reporter:
    """Writes reports while ``run`` runs."""

    def __init__(self, api: ApiClient, clock: Callable[[], datetime]) -> None:
        self._api = api
        self._clock = clock
        self._waiting: asyncio.Queue[Report] = asyncio.Queue(MOST_WAITING)
        self._written: set[tuple[str, ...]] = set()
        self._serial = 0

    def now(self) -> str:
        """The time as conditions have it."""
        return rfc3339(self._clock())

    def scheduled(self, pod: Object, node: str) -> None:
        """The pod is bound."""
        text = f"Successfully assigned {full_name(pod)} to {node}"
        self._put(pod, scheduler_of(pod), ("Normal", "Scheduled", "Binding", text))

    def failed(self, pod: Object, condition_reason: str, message: str, node: str | None = "") -> None:
        """The attempt failed; ``condition_reason`` is ``UNSCHEDULABLE`` (refused) or ``SCHEDULER_ERROR``.

        ``node``: the nomination, None leaves it as it is. The status is also written on a pod that was bound in between: the
        kubelet mends that.
        """
        wanted = {"type": "PodScheduled", "status": "False", "reason": condition_reason, "message": message}
        condition = changed_condition(pod, wanted, self.now())
        status: Object = {} if condition is None else {"conditions": [condition]}
        if node is not None and node != nominated_node_of(pod):
            status["nominatedNodeName"] = node or None
        self._put(pod, scheduler_of(pod), ("Warning", "FailedScheduling", "Scheduling", message), status)

    def preempted(self, victim: Object, pod: Object, node: str) -> None:
        """The victim was evicted for the pod."""
        text = f"Preempted by pod {uid_of(pod)} on node {node}"
        self._put(victim, scheduler_of(pod), ("Normal", "Preempted", "Preempting", text))

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            report = await self._waiting.get()
            for write in (self._write_status, self._write_event):
                try:
                    await write(report)
                except Exception as error:
                    logger.warning("not reported pod=%s: %r", full_name(report.pod), error)

    def _put(self, pod: Object, by: str, event: tuple[str, str, str, str], status: Object | None = None) -> None:
        """``event``: type, reason, action and message, by the scheduler of that name."""
        try:
            self._waiting.put_nowait(
                Report(pod, event_of(pod, by, event, micro_timestamp(self._clock())), status or {})
            )
        except asyncio.QueueFull:
            logger.warning("not reported pod=%s: too many reports", full_name(pod))

    async def patch_status(self, pod: Object, status: Object) -> None:
        """Write a part of the status of just this pod."""
        metadata = pod["metadata"]
        patch = {"metadata": {"uid": uid_of(pod)}, "status": status}
        namespace = metadata.get("namespace", "default")
        await self._api.patch(PODS, metadata["name"], patch, namespace, subresource="status")

    async def _write_status(self, report: Report) -> None:
        if report.status:
            await self.patch_status(report.pod, report.status)

    async def _write_event(self, report: Report) -> None:
        """A new event; the same of a pod that has not changed since is not written again (the real one counts it)."""
        event, version = report.event, str(report.pod["metadata"].get("resourceVersion", ""))
        key = (uid_of(report.pod), version, event["reason"])
        if key not in self._written:
            self._serial += 1
            name = f"{report.pod['metadata']['name']}.{uid_of(report.pod)[:8]}.{self._serial:x}"
            await self._api.create({**event, "metadata": {**event["metadata"], "name": name}})
        if len(self._written) > MOST_REMEMBERED:
            self._written.clear()
        self._written.add(key)


def changed_condition(pod: Object, wanted: Object, at: str) -> Object | None:
    """A condition as it must look, or None if the pod has it; its time moves with the status only."""
    conditions = (pod.get("status") or {}).get("conditions") or []
    current: Object = next((each for each in conditions if each.get("type") == wanted["type"]), {})
    generation = pod["metadata"].get("generation")
    if generation:
        wanted = {**wanted, "observedGeneration": generation}
    if all(current.get(key) == value for key, value in wanted.items()):
        return None
    if current.get("status") != wanted["status"]:
        wanted = {**wanted, "lastProbeTime": None, "lastTransitionTime": at}
    return wanted


def event_of(pod: Object, by: str, event: tuple[str, str, str, str], at: str) -> Object:
    """An event on the pod as events.k8s.io has it, in its core/v1 form, without a name."""
    metadata = pod["metadata"]
    namespace = metadata.get("namespace", "default")
    copied = {key: metadata[key] for key in ("name", "uid", "resourceVersion") if key in metadata}
    kind, reason, action, message = event
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"namespace": namespace},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": namespace, **copied},
        "type": kind,
        "reason": reason,
        "action": action,
        "message": shortened(message),
        "source": {},
        "firstTimestamp": None,
        "lastTimestamp": None,
        "eventTime": at,
        "reportingComponent": by,
        "reportingInstance": f"{by}-{socket.gethostname()}",
    }


def shortened(message: str) -> str:
    """A message that fits an event."""
    if len(message.encode()) <= LONGEST_MESSAGE:
        return message
    return message.encode()[: LONGEST_MESSAGE - 4].decode(errors="ignore") + " ..."


def micro_timestamp(at: datetime) -> str:
    """RFC 3339 with microseconds, as the API writes the times of events. ``at`` is in UTC."""
    return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
