"""The embedded scheduler's lists and watches."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from clusters.api.api_client import ApiClient
from clusters.api.connection import Connection
from clusters.api.resources import PODS
from clusters.api.waiting import eventually
from clusters.embedded.scheduling.informer import Informer
from e2e.parity.recording_extender import Answer, Call, RecordingExtender
from tests.clusters.embedded.scheduling.scheduling_objects import make_pod


class LocalLists:
    """An API server that answers each list with the next of ``lists`` (the last one for ever) and refuses to watch."""

    def __init__(self, *lists: list[str]) -> None:
        self.lists = list(lists)
        self.server = RecordingExtender(self.respond)

    async def respond(self, call: Call) -> Answer:
        if "watch=1" in call.verb:
            return Answer({"reason": "Forbidden", "message": "no"}, status=403)
        names = self.lists.pop(0) if len(self.lists) > 1 else self.lists[0]
        return Answer({"metadata": {"resourceVersion": "1"}, "items": [make_pod(name) for name in names]})


async def follow(lists: LocalLists, until: tuple[str, str], broken: str = "") -> list[tuple[str, str]]:
    """The events of an informer, up to ``until``; ``broken`` is a pod at which its consumer chokes."""
    seen: list[tuple[str, str]] = []

    def take(kind: str, pod: dict[str, dict[str, str]]) -> None:
        seen.append((kind, pod["metadata"]["name"]))
        if pod["metadata"]["name"] == broken:
            raise ValueError("makes no sense")

    async def look() -> list[tuple[str, str]]:
        return seen

    async with lists.server as server, Connection(f"http://127.0.0.1:{server.port}") as http:
        informer = Informer(ApiClient(http), PODS, take)
        running = asyncio.create_task(informer.run())
        await eventually(look, lambda events: until in events, f"{until} is handed over")
        assert informer.synced.is_set()
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
    return seen[: seen.index(until) + 1]


async def test_objects_lost_during_a_broken_watch_come_as_deleted() -> None:
    """A refused watch starts again from a list; nothing that is gone stays in the picture."""
    seen = await follow(LocalLists(["a", "b"], ["b"]), until=("DELETED", "a"))

    assert [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "b"), ("DELETED", "a")] == seen


async def test_an_object_that_makes_no_sense_does_not_stop_the_others() -> None:
    """The objects after it are still reported."""
    assert ("ADDED", "b") in await follow(LocalLists(["a", "b"]), until=("ADDED", "b"), broken="a")
