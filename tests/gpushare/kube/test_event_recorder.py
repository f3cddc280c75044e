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


async def test_the_same_again_counts_up() -> None:
    """Another message is another event. An object without a namespace has its events in the default one."""
    said = *[("Pod", POD, "R", "m")] * 3, ("Pod", POD, "R", "another"), ("Node", ObjectMeta(name="n"), "R", "m")
    first, second, third, other, of_node = await record(ScriptedApi(lambda call: Answer({}, 201)), *said)

    assert [call.method for call in (first, second, third, other)] == ["POST", "PATCH", "PATCH", "POST"]
    assert (first.path, of_node.path) == tuple(f"/api/v1/namespaces/{name}/events" for name in ("team", "default"))
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
