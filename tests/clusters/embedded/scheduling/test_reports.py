"""The conditions and events that the embedded scheduler writes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime

from clusters.api.api_client import ApiClient
from clusters.api.connection import Connection
from clusters.api.waiting import eventually
from clusters.embedded.scheduling.reports import (
    LONGEST_MESSAGE,
    UNSCHEDULABLE,
    Reporter,
    changed_condition,
    shortened,
)
from e2e.parity.recording_extender import Answer, Call, RecordingExtender, Respond
from tests.clusters.embedded.scheduling.scheduling_objects import make_pod

AT = "2026-01-02T03:04:05Z"
CONDITION = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no card"}


def with_condition(**fields: str) -> dict[str, object]:
    return {**make_pod("p1"), "status": {"conditions": [{"type": "Ready"}, {**CONDITION, **fields}]}}


def test_changed_condition_of_a_new_pod_has_the_time() -> None:
    """The transition is now."""
    expected = {**CONDITION, "lastProbeTime": None, "lastTransitionTime": AT}
    assert expected == changed_condition(make_pod("p1"), CONDITION, AT)


def test_changed_condition_with_another_message_keeps_the_time() -> None:
    """The status did not move."""
    assert CONDITION == changed_condition(with_condition(message="other"), CONDITION, AT)


def test_condition_that_the_pod_already_has_is_not_written() -> None:
    """Times alone are no change."""
    assert changed_condition(with_condition(lastTransitionTime="2020-01-01T00:00:00Z"), CONDITION, AT) is None


def test_changed_condition_names_the_generation_that_it_saw() -> None:
    """The condition's observedGeneration is the generation of the pod."""
    pod = make_pod("p1")
    pod["metadata"]["generation"] = 3

    changed = changed_condition(pod, CONDITION, AT)
    assert changed is not None
    assert changed["observedGeneration"] == 3


def test_shortened_fits_an_event() -> None:
    """A long message is cut by bytes, and shows it."""
    assert shortened("short") == "short"
    for message in ("x" * 3000, "ü" * 3000):
        assert len(shortened(message).encode()) <= LONGEST_MESSAGE
        assert shortened(message).endswith(" ...")


async def written(respond: Respond, pods: list[dict[str, object]], done: Callable[[list[str]], bool]) -> list[Call]:
    """The requests of a reporter to an API server that answers ``respond``, for one failure of each pod in turn."""
    now = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    async with RecordingExtender(respond) as server:
        http = Connection(f"http://127.0.0.1:{server.port}")
        reporter = Reporter(ApiClient(http), lambda: now)
        running = asyncio.create_task(reporter.run())

        async def look() -> list[str]:
            return server.verbs()

        for pod in pods:
            reporter.failed(pod, UNSCHEDULABLE, "no card")
        await eventually(look, done, "all is reported")
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        await http.close()
        return server.calls


async def test_reporter_writes_again_only_when_the_pod_has_changed() -> None:
    """A pod of another version gets a second event, which has the pod's uid."""

    async def respond(call: Call) -> Answer:
        return Answer({}, 201)

    changed = make_pod("p1")
    changed["metadata"]["resourceVersion"] = "7"
    calls = await written(respond, [make_pod("p1")] * 3 + [changed], lambda verbs: verbs.count("events") == 2)

    events = [call.message for call in calls if call.verb == "events"]
    assert [event["involvedObject"]["uid"] for event in events] == ["uid-p1"] * 2
    assert [event["involvedObject"].get("resourceVersion") for event in events] == [None, "7"]


async def test_reporter_takes_a_nomination_away() -> None:
    """The status is written with null."""

    async def respond(call: Call) -> Answer:
        return Answer({}, 201)

    pod = {**make_pod("p1"), "status": {"nominatedNodeName": "n1"}}
    calls = await written(respond, [pod], lambda verbs: "events" in verbs)

    assert calls[0].message["status"]["nominatedNodeName"] is None


async def test_reporter_goes_on_after_a_failed_write() -> None:
    """The next pod's event is written."""

    async def respond(call: Call) -> Answer:
        return Answer({"reason": "Forbidden"}, 403 if "p1" in str(call.body) else 201)

    calls = await written(respond, [make_pod("p1"), make_pod("p2")], lambda verbs: verbs.count("events") == 2)

    assert ["p1", "p2"] == [call.message["involvedObject"]["name"] for call in calls if call.verb == "events"]
