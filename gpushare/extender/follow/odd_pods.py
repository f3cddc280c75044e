"""Bound pods with annotations that the book cannot use, reported to people: a line of the log, and an event on the pod.

No scheduler can tell of them: it has no more questions about a pod that is bound.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from gpushare import wire
from gpushare.extender.core.belief import IGNORED
from gpushare.kube.event_recorder import EventRecorder
from gpushare.manifests import ObjectMeta

_LOG = logging.getLogger(__name__)

# Problems of one pod that are reported; its author may write another annotation many times a second.
_MOST_PROBLEMS: Final = 5
# Pods that wait for their event; beyond that they are only logged. An API server that stays away must not fill our memory, and
# if thousands of pods are odd, a few hundred events show enough.
_LONGEST_QUEUE: Final = 500
# How long an API server that could not take an event is left alone, in seconds.
_PAUSE_SECONDS: Final = 10.0


class OddPods:
    """Each fault of a pod is reported once, and no caller waits for it.

    Without ``events`` only the log has it.
    """

    def __init__(self, events: EventRecorder | None = None) -> None:
        self._events = events
        self._reported: dict[str, str] = {}
        self._counts: dict[str, int] = {}
        # The identity of each pod, without its annotations, which may be large.
        self._reports: asyncio.Queue[tuple[ObjectMeta, str]] = asyncio.Queue(_LONGEST_QUEUE)

    def note(self, metadata: ObjectMeta, problem: str | None) -> None:
        """The problem of the pod now; None if there is none."""
        uid = metadata.uid
        if problem is None:
            self._reported.pop(uid, None)
        elif self._reported.get(uid) != problem and self._counts.get(uid, 0) < _MOST_PROBLEMS:
            self._reported[uid] = problem
            self._counts[uid] = self._counts.get(uid, 0) + 1
            _LOG.warning("odd pod=%s/%s uid=%s problem=%s", metadata.namespace, metadata.name, uid, problem)
            self._queue(ObjectMeta(metadata.name, metadata.namespace, uid), problem)

    def forget(self, metadata: ObjectMeta) -> None:
        """The pod is gone."""
        self._reported.pop(metadata.uid, None)
        self._counts.pop(metadata.uid, None)

    async def run(self) -> None:
        """Write the events, until cancelled."""
        while self._events is not None:
            metadata, problem = await self._reports.get()
            # Mended or gone in the meantime.
            if self._reported.get(metadata.uid) != problem:
                continue
            is_ignored = problem.startswith(IGNORED)
            message = problem if is_ignored else f"its GPU memory is not, or not all, booked: {problem}"
            if not await self._events.record(
                "Pod", metadata, wire.EVENT_IGNORED if is_ignored else wire.EVENT_NOT_BOOKED, message
            ):
                self._queue(metadata, problem)
                await asyncio.sleep(_PAUSE_SECONDS)

    def _queue(self, metadata: ObjectMeta, problem: str) -> None:
        if self._events is not None and not self._reports.full():
            self._reports.put_nowait((metadata, problem))
