"""Promises of the embedded cluster that no comparison with the real one shows: its page, slow watches, long times."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

import clusters.embedded
from clusters.api.api_client import ApiClient, ApiError
from clusters.api.connection import Connection
from clusters.api.resources import ALL, CONFIG_MAPS, NODES, PODS, Resource
from clusters.api.waiting import eventually
from clusters.embedded.apiserver.server import EmbeddedApi
from clusters.embedded.controllers.desired import Action, Delete, Patch
from clusters.embedded.controllers.jobs import depends_on_time, job
from clusters.embedded.embedded_control_plane import EmbeddedControlPlane
from clusters.embedded.scheduling.configuration import API_VERSION, KIND
from clusters.embedded.scheduling.fit import EXTENDER
from clusters.embedded.scheduling.informer import Informer
from clusters.embedded.scheduling.queue import LEFTOVER_SECONDS, Change, QueuedPod, SchedulingQueue


def pod(name: str, **spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": "i", "ports": [{"containerPort": 80, "hostPort": 80}]}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": containers, **spec}}


async def test_a_senseless_pod_stops_no_other(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The pod after one with an unknown operator is bound, and the log names its wishes that are not imitated."""
    control_plane = EmbeddedControlPlane(tmp_path)
    await control_plane.start(controllers=False)
    term = {"matchExpressions": [{"key": "a", "operator": "Near", "values": ["b"]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {"capacity": {"pods": "9"}}}
    try:
        async with ApiClient.from_kubeconfig(control_plane.kubeconfig) as api:
            await api.create(node)
            await api.patch(NODES, "n", {"spec": {"taints": None}})
            await control_plane.start_scheduler({"apiVersion": API_VERSION, "kind": KIND})
            await api.create(pod("broken", affinity=affinity))
            await api.create(pod("good"))

            async def look() -> dict[str, str]:
                return {one["metadata"]["name"]: one["spec"].get("nodeName", "") for one in await api.list(PODS)}

            await eventually(look, lambda found: found == {"broken": "", "good": "n"}, "the good pod alone is bound")
            broken = await eventually(
                lambda: api.get(PODS, "broken", "default"), lambda one: "conditions" in one["status"], "a reason"
            )
    finally:
        await control_plane.stop()
    assert "'Near'" in broken["status"]["conditions"][0]["message"]
    assert "fields=['hostPort']" in caplog.text


PAGE = Path(clusters.embedded.__file__).parent / "README.md"


def test_the_page_lists_exactly_the_kinds_that_are_served() -> None:
    """Each row names kinds and the API versions that have all of them."""
    rows = [line.split("|")[1:3] for line in PAGE.read_text().splitlines() if line.startswith("| ")][1:]
    listed = {
        (version.strip(), kind.strip())
        for kinds, versions in rows
        for kind in kinds.split(",")
        for version in versions.split(",")
    }

    assert listed == {(resource.api_version, resource.kind) for resource in ALL}


NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
ONE_MINUTE_AGO = "2026-01-01T11:59:00Z"
COMPLETE = {"type": "Complete", "status": "True", "lastTransitionTime": ONE_MINUTE_AGO}


def owner(status: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """A Job of one completion, with its defaults."""
    template = {"metadata": {}, "spec": {"restartPolicy": "Never", "containers": [{"name": "c"}]}}
    body = {"completions": 1, "parallelism": 1, "backoffLimit": 6, "suspend": False, "template": template, **spec}
    metadata = {"name": "w", "namespace": "d", "uid": "job"}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": body, "status": status}


def deleted(actions: list[Action]) -> list[str]:
    return [action.item["metadata"]["name"] for action in actions if isinstance(action, Delete)]


def test_a_deadline_ends_a_job() -> None:
    """A Job fails at its deadline, counted from its start, whatever its pods do."""
    one = owner({"startTime": ONE_MINUTE_AGO}, activeDeadlineSeconds=60)
    metadata = {
        "name": "p",
        "uid": "p",
        "ownerReferences": [{"uid": "job", "controller": True}],
        "resourceVersion": "1",
    }
    pods = [{"metadata": metadata, "status": {"phase": "Running"}}]
    actions = job(one, pods, NOW)
    (status,) = (action.patch["status"] for action in actions if isinstance(action, Patch))

    assert {each["reason"] for each in status["conditions"]} == {"DeadlineExceeded"}
    assert (deleted(actions), deleted(job(one, pods, NOW - SECOND))) == (["p"], [])
    assert depends_on_time(one)


def test_an_ended_job_stays_until_its_time_is_over() -> None:
    """An ended Job is deleted only after the time that its author set, if any."""
    one = owner({"conditions": [COMPLETE]}, ttlSecondsAfterFinished=60)

    assert (job(one, [], NOW - SECOND), deleted(job(one, [], NOW))) == ([], ["w"])
    assert job(owner({"conditions": [COMPLETE]}), [], NOW) == []
    assert not depends_on_time(owner({"conditions": [COMPLETE]}))


PATH = CONFIG_MAPS.path("default")


async def events_of(server: EmbeddedApi, count: int) -> list[dict[str, Any]]:
    """The events of a watch of a second, during which ``count`` objects are created together."""
    url = await server.start()
    params = {"watch": "1", "timeoutSeconds": "1", "resourceVersion": str(server.store.version)}
    try:
        async with Connection(url) as http, http.stream("GET", PATH, params=params) as response:
            for number in range(count):
                server.writes.create(CONFIG_MAPS, "default", {"metadata": {"name": f"c{number}"}})
                if number % 5 == 4:
                    await asyncio.sleep(0)
            return [json.loads(line) async for line in response.lines()]
    finally:
        await server.stop()


async def test_a_watch_that_cannot_keep_up_gets_an_error() -> None:
    """More changes together than are remembered are a 410 in the middle of a watch."""
    (event,) = await events_of(EmbeddedApi(history=3), 10)

    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)


async def test_late_events_come_in_order_and_none_is_lost() -> None:
    """A watch that is late shows each change, in the order of the versions."""
    events = await events_of(EmbeddedApi(watch_lag=0.01), 50)

    assert [event["object"]["metadata"]["name"] for event in events] == [f"c{number}" for number in range(50)]


class Lists:
    """A client with watches that break after their first objects: the next of ``lists``, and from then on the last."""

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
    """A pod that is refused while room comes is tried again immediately."""
    queue = SchedulingQueue()
    queue.add(POD, 0)
    item = take(queue, 0)
    queue.wake([Change.POD_DELETED], 0)
    queue.requeue_rejected(item, POD, REFUSED, 0)

    assert queue.pop(0) is item
