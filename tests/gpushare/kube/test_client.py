"""Promises of the client and of the event recorder, on a real socket."""

from __future__ import annotations

import random
from typing import Any

import pytest

from gpushare.kube.api_errors import (
    ApiError,
    ConflictError,
    ForbiddenError,
    GoneError,
    InvalidError,
    MissingRightError,
    NotFoundError,
    ServerError,
    TooManyRequestsError,
    UnauthorizedError,
)
from gpushare.kube.event_recorder import EventRecorder
from gpushare.manifests import ObjectMeta, Pod
from tests.gpushare.kube.scripted_api import (
    DROP,
    Answer,
    Call,
    ScriptedApi,
    Watch,
    client_of,
    listen,
    listing,
    status,
)

PATH = "/api/v1/namespaces/default/pods/p"


async def refused(answer: Any, method: str = "GET") -> ApiError:
    """The error of one request that is answered so."""
    api = ScriptedApi(lambda call: answer)
    async with listen(api) as url, client_of(url) as client:
        with pytest.raises(ApiError) as caught:
            await client.request(method, PATH, body={} if method != "GET" else None)
    return caught.value


@pytest.mark.parametrize(
    ("code", "kind", "may_have_happened"),
    [
        (302, ApiError, False),
        (400, InvalidError, False),
        (401, UnauthorizedError, False),
        (403, ForbiddenError, False),
        (404, NotFoundError, False),
        (409, ConflictError, False),
        (410, GoneError, False),
        (415, ApiError, False),
        (422, InvalidError, False),
        (429, TooManyRequestsError, False),
        (500, ServerError, True),
        (504, ServerError, True),
    ],
)
async def test_a_refusal_is_an_error_of_its_kind(code: int, kind: type[ApiError], may_have_happened: bool) -> None:
    """Each status has its class, keeps the server's message, and shows whether a write may still have happened."""
    error = await refused(Answer(status(code, "Because", "the words of the server"), code), "POST")

    assert type(error) is kind
    assert (error.code, error.reason, error.may_have_happened) == (code, "Because", may_have_happened)
    assert f"POST {PATH}" in str(error)
    assert "the words of the server" in str(error)


@pytest.mark.parametrize(
    ("message", "is_the_role"),
    [
        ('pods is forbidden: User "system:serviceaccount:a:b" cannot list resource "pods" in API group ""', True),
        ('pods "p" is forbidden: unable to create new content in namespace n because it is being terminated', False),
        ('pods "p" is forbidden: exceeded quota: q, requested: pods=1, used: pods=5, limited: pods=5', False),
    ],
)
async def test_only_the_authorizers_refusal_is_put_down_to_the_role(message: str, is_the_role: bool) -> None:
    """Admission answers 403 as well; a reader of the log at night must not look for a role then."""
    error = await refused(Answer(status(403, "Forbidden", message), 403), "POST")

    assert type(error) is (MissingRightError if is_the_role else ForbiddenError)
    assert ("lacks the right" in str(error)) is is_the_role


async def test_only_a_status_object_is_quoted() -> None:
    """A page of a proxy in between may hold what is not ours to log."""
    error = await refused(Answer(b"<html>secret</html>", 502))

    assert isinstance(error, ServerError)
    assert "secret" not in str(error)


async def test_a_read_is_repeated_after_retry_after() -> None:
    """429 with Retry-After is obeyed for reads, and the caller does not see it unless it comes again and again."""
    busy = Answer(status(429), 429, {"retry-after": "0"})
    api = ScriptedApi(lambda call: busy if len(api.calls) < 3 else Answer({"metadata": {"name": "p"}}))
    async with listen(api) as url, client_of(url) as client:
        pod = await client.get_pod("default", "p")

    assert pod.metadata.name == "p"
    assert len(api.calls) == 3
    assert isinstance(await refused(busy), TooManyRequestsError)


async def test_write_that_must_come_later_is_the_callers_to_repeat() -> None:
    """The error has the seconds, and nothing is sent twice."""
    api = ScriptedApi(lambda call: Answer(status(429), 429, {"retry-after": "7"}))
    async with listen(api) as url, client_of(url) as client:
        with pytest.raises(TooManyRequestsError) as caught:
            await client.bind("default", "p", "u", "n", {})

    assert caught.value.retry_after_seconds == 7
    assert len(api.calls) == 1


async def test_an_answer_that_is_no_object_is_an_error_with_its_path() -> None:
    """HTML from a proxy does not end the program."""
    async with listen(ScriptedApi(lambda call: Answer(b"<html>"))) as url, client_of(url) as client:
        with pytest.raises(ApiError, match="/api/v1/nodes/n1"):
            await client.get_node("n1")


async def test_names_of_strangers_stay_inside_their_path() -> None:
    """A name with a slash or a question mark addresses no other object."""
    api = ScriptedApi(lambda call: Answer({}))
    async with listen(api) as url, client_of(url) as client:
        await client.get_pod("default", "a/../b?c")

    assert api.calls[0].path == "/api/v1/namespaces/default/pods/a/../b?c"
    assert api.calls[0].query == {}


@pytest.mark.promise("API-006")
async def test_an_annotation_carries_the_uid() -> None:
    """A pod re-created under the name is refused by the server, not annotated."""
    api = ScriptedApi(lambda call: Answer({}))
    pod = Pod(metadata=ObjectMeta(name="p", namespace="default", uid="u1"))
    async with listen(api) as url, client_of(url) as client:
        await client.annotate_pod(pod, {"A": "1"})

    (call,) = api.calls

    assert (call.method, call.path) == ("PATCH", PATH)
    assert call.headers["content-type"] == "application/strategic-merge-patch+json"
    assert call.body == {"metadata": {"uid": "u1", "annotations": {"A": "1"}}}


async def test_lines_of_a_watch_are_ended_by_line_feeds_alone() -> None:
    """Other line ends may stand inside JSON strings; a line may come in pieces; a half one at the end is dropped."""
    steps = [b'{"a":"x\xe2\x80\xa8y\x0c"}\n{"b"', b":1}\n\n", b'{"half']
    async with (
        listen(ScriptedApi(lambda call: Watch(steps))) as url,
        client_of(url) as client,
        client.stream("/api/v1/pods", {"watch": "1"}, silence_seconds=30) as stream,
    ):
        found = [line async for line in stream]

    assert found == [b'{"a":"x\xe2\x80\xa8y\x0c"}', b'{"b":1}']


async def test_a_report_goes_on_when_its_next_page_is_gone() -> None:
    """The API server answers 410 with a token for the rest, as it is now: no object is missing, and none is there twice."""

    def respond(call: Call) -> Any:
        match call.query.get("continue"):
            case None:
                return listing("9", {"metadata": {"name": "a"}}, next_page="old")
            case "old":
                return Answer(status(410, "Expired") | {"metadata": {"continue": "new"}}, 410)
            case _:
                return listing("12", {"metadata": {"name": "b"}})

    async with listen(ScriptedApi(respond)) as url, client_of(url) as client:
        assert [one.metadata.name for one in await client.list_pods()] == ["a", "b"]
        found = list[str]()
        await client.read_each("/api/v1/pods", Pod, lambda one: found.append(one.metadata.name))
        assert found == ["a", "b"]


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
