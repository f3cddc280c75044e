"""Promises of the event recorder."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from gpushare.kube.event_recorder import EventRecorder
from gpushare.manifests import ObjectMeta
from tests.gpushare.kube.scripted_api import DROP, Answer, Call, ScriptedApi, client_of, listen, status

POD = ObjectMeta(name="p", namespace="team", uid="u1")


async def record(api: ScriptedApi, *said: tuple[str, ObjectMeta, str, str]) -> list[Call]:
    """Record these one after the other; the requests."""
    async with listen(api) as url, client_of(url) as client:
        recorder = EventRecorder(client, "gpushare", lambda: 1_700_000_000.9, random.Random(1))
        for one in said:
            await recorder.record(*one)
    return api.calls


def core_only(status_code: int, reason: str, message: str = "") -> Callable[[Call], Answer]:
    """A server that answers so for events.k8s.io."""

    def respond(call: Call) -> Answer:
        if call.path.startswith("/apis/"):
            return Answer(status(status_code, reason, message), status_code)
        return Answer({}, 201)

    return respond


LACKS_RIGHT = core_only(403, "Forbidden", 'User "x" cannot create resource "events" in API group "events.k8s.io"')
ABOUT_POD = {"apiVersion": "v1", "kind": "Pod", "namespace": "team", "name": "p", "uid": "u1"}


@pytest.mark.promise("API-010")
async def test_an_event_is_written_on_its_object() -> None:
    """Every field is as events.k8s.io wants it."""
    (call,) = await record(ScriptedApi(lambda call: Answer({}, 201)), ("Pod", POD, "NoCard", "why"))

    assert (call.method, call.path) == ("POST", "/apis/events.k8s.io/v1/namespaces/team/events")
    assert call.body["metadata"].pop("name").startswith("p.")
    assert call.body.pop("reportingInstance").startswith("gpushare-")
    assert call.body == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"namespace": "team"},
        "regarding": ABOUT_POD,
        "reason": "NoCard",
        "action": "NoCard",
        "note": "why",
        "type": "Warning",
        "eventTime": "2023-11-14T22:13:20.900000Z",
        "reportingController": "gpushare",
    }


@pytest.mark.parametrize("respond", [core_only(404, "NotFound"), LACKS_RIGHT], ids=["not served", "not allowed"])
async def test_event_goes_to_the_core_group_if_only_that_exists(
    respond: Callable[[Call], Answer],
) -> None:
    """Roles of the original name no other; it is tried once, and a repetition is counted there."""
    tried, *calls = await record(ScriptedApi(respond), *[("Pod", POD, "NoCard", "why")] * 2, ("Pod", POD, "R", "m"))

    assert tried.path == "/apis/events.k8s.io/v1/namespaces/team/events"
    path = "/api/v1/namespaces/team/events"
    name = calls[0].body["metadata"].pop("name")
    assert [(call.method, call.path) for call in calls] == [("POST", path), ("PATCH", f"{path}/{name}"), ("POST", path)]
    assert calls[0].body == {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"namespace": "team"},
        "involvedObject": ABOUT_POD,
        "reason": "NoCard",
        "message": "why",
        "type": "Warning",
        "count": 1,
        "firstTimestamp": "2023-11-14T22:13:20Z",
        "lastTimestamp": "2023-11-14T22:13:20Z",
        "source": {"component": "gpushare"},
    }
    assert calls[1].body == {"count": 2, "lastTimestamp": "2023-11-14T22:13:20Z"}


async def test_an_event_of_a_node_goes_to_the_default_namespace() -> None:
    """A node has no namespace of its own."""
    (call,) = await record(ScriptedApi(lambda call: Answer({}, 201)), ("Node", ObjectMeta(name="n"), "R", "m"))

    assert call.path == "/apis/events.k8s.io/v1/namespaces/default/events"


async def test_the_same_again_counts_up() -> None:
    """Another message is another event."""
    first, second, third, other = await record(
        ScriptedApi(lambda call: Answer({}, 201)), *[("Pod", POD, "R", "m")] * 3, ("Pod", POD, "R", "another")
    )

    assert [call.method for call in (first, second, third, other)] == ["POST", "PATCH", "PATCH", "POST"]
    assert second.path == f"{first.path}/{first.body['metadata']['name']}"
    assert [second.body, third.body] == [
        {"series": {"count": count, "lastObservedTime": "2023-11-14T22:13:20.900000Z"}} for count in (2, 3)
    ]
    assert other.body["metadata"]["name"] != first.body["metadata"]["name"]


async def test_an_event_that_expired_is_written_again() -> None:
    """The API server forgets events after an hour."""

    def respond(call: Call) -> Answer:
        return Answer({}, 201) if call.method == "POST" else Answer(status(404, "NotFound"), 404)

    calls = await record(ScriptedApi(respond), *[("Pod", POD, "R", "m")] * 2)

    assert [call.method for call in calls] == ["POST", "PATCH", "POST"]


async def test_a_role_that_may_write_no_events_raises_nothing() -> None:
    """An event that the role may not write raises nothing. The next event tries both forms again."""
    refusal = Answer(status(403, "Forbidden", 'User "x" cannot create resource "events"'), 403)
    calls = await record(ScriptedApi(lambda call: refusal), *[("Pod", POD, "R", "m")] * 2)

    assert [call.path.split("/")[1] for call in calls] == ["apis", "api"] * 2


async def test_a_long_message_is_cut_to_what_an_api_server_takes() -> None:
    """A long message is cut to the bytes that an API server takes, at a whole character."""
    (call,) = await record(ScriptedApi(lambda call: Answer({}, 201)), ("Pod", POD, "R", "x" + "\u00e4" * 600))

    assert call.body["note"] == "x" + "\u00e4" * 511


@pytest.mark.parametrize("at_the_cut", ["-", ".", "-."])
async def test_an_events_name_is_of_whole_labels(at_the_cut: str) -> None:
    """A pod's name may be longer than what of it fits, and events.k8s.io takes no name like ``web-.1``."""
    name = "p" * (200 - len(at_the_cut)) + at_the_cut + "q"
    calls = await record(ScriptedApi(lambda call: Answer({}, 201)), ("Pod", ObjectMeta(name=name), "R", "m"))

    stem, _, _ = calls[0].body["metadata"]["name"].rpartition(".")
    assert stem == "p" * (200 - len(at_the_cut))


@pytest.mark.parametrize(
    ("answer", "expected"),
    [(201, True), (422, True), (404, True), (403, True), (429, False), (500, False), (DROP, False)],
)
async def test_record_answers_whether_it_is_done_with_the_event(answer: Any, expected: bool) -> None:
    """Record returns False if another try may help, and True if it is written or never will be. It raises nothing."""
    api = ScriptedApi(lambda call: answer if isinstance(answer, str) else Answer(status(answer), answer))
    async with listen(api) as url, client_of(url) as client:
        recorder = EventRecorder(client, "gpushare", lambda: 0.0, random.Random(1))

        assert await recorder.record("Pod", POD, "R", "m") is expected
