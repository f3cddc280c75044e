"""Promises of the event recorder."""

from __future__ import annotations

import random
from typing import Any

import pytest

from gpushare.kube.event_recorder import EventRecorder
from gpushare.manifests import ObjectMeta
from tests.gpushare.kube.scripted_api import DROP, Answer, Call, ScriptedApi, client_of, listen, status

POD = ObjectMeta(name="p", namespace="team", uid="u1")


async def record(api: ScriptedApi, *said: tuple[str, ObjectMeta, str, str]) -> list[Call]:
    """Record these one after the other; the requests."""
    async with listen(api) as url, client_of(url) as client:
        recorder = EventRecorder(client, "gpushare", lambda: 1_700_000_000.9, random.Random(1), "n1")
        for one in said:
            await recorder.record(*one)
    return api.calls


ABOUT_POD = {"apiVersion": "v1", "kind": "Pod", "namespace": "team", "name": "p", "uid": "u1"}


async def test_an_event_is_written_on_its_object() -> None:
    """Every field is as core/v1 wants it."""
    (call,) = await record(ScriptedApi(lambda call: Answer({}, 201)), ("Pod", POD, "NoCard", "why"))

    assert (call.method, call.path) == ("POST", "/api/v1/namespaces/team/events")
    assert call.body["metadata"].pop("name").startswith("p.")
    assert call.body == {
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
        "source": {"component": "gpushare", "host": "n1"},
    }


async def test_an_event_of_a_node_goes_to_the_default_namespace() -> None:
    """A node has no namespace of its own."""
    (call,) = await record(ScriptedApi(lambda call: Answer({}, 201)), ("Node", ObjectMeta(name="n"), "R", "m"))

    assert call.path == "/api/v1/namespaces/default/events"


async def test_the_same_again_counts_up() -> None:
    """Another message is another event."""
    first, second, third, other = await record(
        ScriptedApi(lambda call: Answer({}, 201)), *[("Pod", POD, "R", "m")] * 3, ("Pod", POD, "R", "another")
    )

    assert [call.method for call in (first, second, third, other)] == ["POST", "PATCH", "PATCH", "POST"]
    assert second.path == f"{first.path}/{first.body['metadata']['name']}"
    assert [second.body, third.body] == [{"count": count, "lastTimestamp": "2023-11-14T22:13:20Z"} for count in (2, 3)]
    assert other.body["metadata"]["name"] != first.body["metadata"]["name"]


async def test_an_event_that_expired_is_written_again() -> None:
    """The API server forgets events after an hour."""

    def respond(call: Call) -> Answer:
        return Answer({}, 201) if call.method == "POST" else Answer(status(404, "NotFound"), 404)

    calls = await record(ScriptedApi(respond), *[("Pod", POD, "R", "m")] * 2)

    assert [call.method for call in calls] == ["POST", "PATCH", "POST"]


async def test_a_long_message_is_cut_to_what_an_api_server_takes() -> None:
    """A long message is cut to the bytes that an API server takes, at a whole character."""
    (call,) = await record(ScriptedApi(lambda call: Answer({}, 201)), ("Pod", POD, "R", "x" + "\u00e4" * 600))

    assert call.body["message"] == "x" + "\u00e4" * 511


@pytest.mark.parametrize("at_the_cut", ["-", ".", "-."])
async def test_an_events_name_is_of_whole_labels(at_the_cut: str) -> None:
    """A pod's name may be longer than what of it fits, and an API server takes no name like ``web-.1``."""
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
