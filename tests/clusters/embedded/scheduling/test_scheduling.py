"""Promises of the embedded scheduler: lists and watches that break, and times too long for a comparison with the real one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, cast

from clusters.api.api_client import ApiClient, ApiError
from clusters.api.resources import PODS, Resource
from clusters.embedded.scheduling.fit import EXTENDER
from clusters.embedded.scheduling.informer import Informer
from clusters.embedded.scheduling.queue import LEFTOVER_SECONDS, Change, QueuedPod, SchedulingQueue


class Lists:
    """A client whose watches break after what was there at their begin: the next of ``lists``, the last for ever."""

    def __init__(self, *lists: str) -> None:
        self.lists = list(lists)

    async def watch(self, _: Resource) -> AsyncGenerator[tuple[str, dict[str, Any]], None]:
        for name in self.lists.pop(0) if len(self.lists) > 1 else self.lists[0]:
            yield "ADDED", {"metadata": {"name": name, "namespace": "n", "uid": name}}
        yield "SYNCED", {}
        raise ApiError(403, "Forbidden", "no")


async def test_a_lost_deletion_comes_with_the_next_list() -> None:
    """A refused watch starts again from a list, and a consumer that chokes on one object gets the others."""
    seen: list[tuple[str, str]] = []

    def take(kind: str, item: dict[str, Any]) -> None:
        seen.append((kind, item["metadata"]["name"]))
        if kind == "DELETED":
            following.cancel()
        raise ValueError("makes no sense")

    informer = Informer(cast(ApiClient, Lists("ab", "b")), PODS, take)
    following = asyncio.create_task(informer.run())
    await asyncio.wait([following], timeout=30)

    assert seen == [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "b"), ("DELETED", "a")]
    assert informer.synced.is_set()


REFUSED = frozenset({EXTENDER})
POD: dict[str, Any] = {"metadata": {"uid": "u"}, "spec": {}}


def take(queue: SchedulingQueue, now: float) -> QueuedPod:
    item = queue.pop(now)
    assert item is not None
    return item


def test_a_refusal_ends_the_backoff_of_errors() -> None:
    """The backoff doubles up to the largest one; errors in a row are counted apart from refusals."""
    queue, now, waits = SchedulingQueue(1, 10), 0.0, []
    queue.add(POD, now)
    for _ in range(6):
        item = take(queue, now)
        queue.requeue_failed(item, POD, now)
        deadline = queue.next_deadline()
        assert deadline is not None
        assert queue.pop(deadline - 0.1) is None
        waits.append(deadline - now)
        now = deadline
    queue.requeue_rejected(take(queue, now), POD, REFUSED, now)

    assert waits == [1, 2, 4, 8, 10, 10]
    assert (item.refusals, item.errors) == (1, 0)


def test_a_forgotten_pod_is_tried_again_after_five_minutes() -> None:
    """A refused pod that no change wakes is tried again after five minutes, and not before."""
    queue = SchedulingQueue()
    queue.add(POD, 0)
    queue.requeue_rejected(take(queue, 0), POD, REFUSED, 0)

    assert queue.pop(LEFTOVER_SECONDS - 1) is None
    assert queue.pop(LEFTOVER_SECONDS) is not None


def test_a_change_during_the_attempt_is_not_missed() -> None:
    """A pod that is refused while room comes is tried again at once."""
    queue = SchedulingQueue()
    queue.add(POD, 0)
    item = take(queue, 0)
    queue.wake([Change.POD_DELETED], 0)
    queue.requeue_rejected(item, POD, REFUSED, 0)

    assert queue.pop(0) is item
