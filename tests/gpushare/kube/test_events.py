"""Promises of the event recorder."""

from __future__ import annotations

import random
from typing import Any

import pytest

from gpushare.kube.events import EventRecorder
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


async def test_an_event_is_written_on_its_object() -> None:
    (call,) = await record(ScriptedApi(lambda call: Answer({}, 201)), ("Pod", POD, "NoCard", "why"))

    assert (call.method, call.path) == ("POST", "/api/v1/namespaces/team/events")
    assert call.body["involvedObject"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": "team",
        "name": "p",
        "uid": "u1",
    }
    assert call.body["metadata"]["name"].startswith("p.")
    assert call.body["metadata"]["namespace"] == "team"
    assert {key: call.body[key] for key in ("reason", "message", "type", "count", "firstTimestamp", "source")} == {
        "reason": "NoCard",
        "message": "why",
        "type": "Warning",
        "count": 1,
        "firstTimestamp": "2023-11-14T22:13:20Z",
        "source": {"component": "gpushare"},
    }


async def test_an_event_of_a_node_goes_to_the_default_namespace() -> None:
    (call,) = await record(ScriptedApi(lambda call: Answer({}, 201)), ("Node", ObjectMeta(name="n"), "R", "m"))

    assert call.path == "/api/v1/namespaces/default/events"


async def test_the_same_again_counts_up() -> None:
    """Another message is another event."""
    first, second, third, other = await record(
        ScriptedApi(lambda call: Answer({}, 201)), *[("Pod", POD, "R", "m")] * 3, ("Pod", POD, "R", "another")
    )

    assert [call.method for call in (first, second, third, other)] == ["POST", "PATCH", "PATCH", "POST"]
    assert second.path == f"{first.path}/{first.body['metadata']['name']}"
    assert [second.body["count"], third.body["count"]] == [2, 3]
    assert other.body["metadata"]["name"] != first.body["metadata"]["name"]


async def test_an_event_that_expired_is_written_anew() -> None:
    """The API server forgets events after an hour."""

    def respond(call: Call) -> Answer:
        return Answer({}, 201) if call.method == "POST" else Answer(status(404, "NotFound"), 404)

    calls = await record(ScriptedApi(respond), *[("Pod", POD, "R", "m")] * 2)

    assert [call.method for call in calls] == ["POST", "PATCH", "POST"]


@pytest.mark.parametrize("answer", [Answer(status(403, "Forbidden"), 403), Answer(b"", 500), DROP])
async def test_an_event_that_cannot_be_written_disturbs_nobody(answer: Any) -> None:
    """A role without the right, a server in trouble: silence."""
    calls = await record(ScriptedApi(lambda call: answer), ("Pod", POD, "R", "m"))

    assert len(calls) == 1
