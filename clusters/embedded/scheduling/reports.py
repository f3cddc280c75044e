"""Tells people what became of a pod: its PodScheduled condition, and events on it.

Written by one task in the order of the decisions, so that no decision waits for it. What cannot be written is logged
and dropped: the next attempt reports again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from clusters.api_client import MERGE_PATCH, ApiClient, ApiError, Object
from clusters.embedded.scheduling.pod_requests import full_name, node_of, uid_of
from clusters.resources import EVENTS, PODS

logger = logging.getLogger(__name__)

UNSCHEDULABLE = "Unschedulable"
SCHEDULER_ERROR = "SchedulerError"
# Bytes of an event's text; the API server refuses longer ones.
LONGEST_MESSAGE = 1024
# Reports not written yet, and events whose count can still be raised; more are not worth the memory.
MOST_WAITING = 10_000
MOST_REMEMBERED = 4096


@dataclass(frozen=True, slots=True)
class Report:
    """One thing to write; without a condition only the event."""

    pod: Object
    type: str
    reason: str
    message: str
    condition_reason: str = ""


class Reporter:
    """Writes reports while ``run`` runs."""

    def __init__(self, api: ApiClient, now: Callable[[], datetime], latest: Callable[[str], Object | None]) -> None:
        """``latest`` answers the last state seen of a pod, by uid."""
        self._api = api
        self._now = now
        self._latest = latest
        self._waiting: asyncio.Queue[Report] = asyncio.Queue(MOST_WAITING)
        self._counts: OrderedDict[tuple[str, str, str], tuple[str, int]] = OrderedDict()
        self._serial = 0

    def scheduled(self, pod: Object, node: str) -> None:
        """The pod is bound."""
        self._put(Report(pod, "Normal", "Scheduled", f"Successfully assigned {full_name(pod)} to {node}"))

    def failed(self, pod: Object, condition_reason: str, message: str) -> None:
        """The attempt failed; ``condition_reason`` is ``UNSCHEDULABLE`` (refused) or ``SCHEDULER_ERROR``."""
        self._put(Report(pod, "Warning", "FailedScheduling", message, condition_reason))

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            report = await self._waiting.get()
            try:
                if report.condition_reason:
                    await self._write_condition(report)
                await self._write_event(report)
            except Exception as error:
                logger.warning("not reported pod=%s reason=%s: %r", full_name(report.pod), report.reason, error)

    def _put(self, report: Report) -> None:
        try:
            self._waiting.put_nowait(report)
        except asyncio.QueueFull:
            logger.warning("not reported pod=%s reason=%s: too many reports", full_name(report.pod), report.reason)

    async def _write_condition(self, report: Report) -> None:
        pod = self._latest(uid_of(report.pod))
        # Bound meanwhile: the condition would be a lie.
        if pod is None or node_of(pod):
            return
        condition = changed_condition(pod, report, timestamp(self._now()))
        if condition is not None:
            patch = {"metadata": {"uid": uid_of(pod)}, "status": {"conditions": [condition]}}
            namespace = pod["metadata"].get("namespace", "default")
            await self._api.patch(PODS, pod["metadata"]["name"], patch, namespace, subresource="status")

    async def _write_event(self, report: Report) -> None:
        key = (uid_of(report.pod), report.reason, report.message)
        name, count = self._counts.pop(key, ("", 0))
        at = timestamp(self._now())
        if not name or not await self._count_up(report, name, count + 1, at):
            self._serial += 1
            name, count = f"{report.pod['metadata']['name']}.{uid_of(report.pod)[:8]}.{self._serial:x}", 0
            await self._api.create(event_of(report, name, at))
        self._counts[key] = (name, count + 1)
        if len(self._counts) > MOST_REMEMBERED:
            self._counts.popitem(last=False)

    async def _count_up(self, report: Report, name: str, count: int, at: str) -> bool:
        """Raise the count of an event that is there; False where it is not any more."""
        patch = {"count": count, "lastTimestamp": at}
        namespace = report.pod["metadata"].get("namespace", "default")
        try:
            await self._api.patch(EVENTS, name, patch, namespace, content_type=MERGE_PATCH)
        except ApiError as error:
            if error.code != 404:
                raise
            return False
        return True


def changed_condition(pod: Object, report: Report, at: str) -> Object | None:
    """PodScheduled=False as it must look, or None where the pod says so; its time moves with the status only."""
    wanted = {"type": "PodScheduled", "status": "False", "reason": report.condition_reason, "message": report.message}
    conditions = (pod.get("status") or {}).get("conditions") or []
    current: Object = next((each for each in conditions if each.get("type") == "PodScheduled"), {})
    if all(current.get(key) == value for key, value in wanted.items()):
        return None
    if current.get("status") != "False":
        wanted["lastTransitionTime"] = at
    return wanted


def event_of(report: Report, name: str, at: str) -> Object:
    """A core/v1 Event on the pod."""
    metadata = report.pod["metadata"]
    namespace = metadata.get("namespace", "default")
    component = report.pod["spec"].get("schedulerName", "default-scheduler")
    involved = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": metadata["name"],
        "namespace": namespace,
        "uid": metadata["uid"],
    }
    if "resourceVersion" in metadata:
        involved["resourceVersion"] = metadata["resourceVersion"]
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": involved,
        "type": report.type,
        "reason": report.reason,
        "message": shortened(report.message),
        "source": {"component": component},
        "reportingComponent": component,
        "reportingInstance": "",
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
    }


def shortened(message: str) -> str:
    """A message that fits an event."""
    if len(message.encode()) <= LONGEST_MESSAGE:
        return message
    return message.encode()[: LONGEST_MESSAGE - 4].decode(errors="ignore") + " ..."


def timestamp(at: datetime) -> str:
    """RFC 3339 in whole seconds, as the API writes times. ``at`` is in UTC."""
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")
