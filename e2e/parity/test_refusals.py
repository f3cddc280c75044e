"""Refusals before anything is done: paths, methods, media types, bodies, sizes, versions; and history that is gone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest

from e2e.parity.parity_objects import config_map, maps
from e2e.parity.parity_requests import compare, delete, get, post
from e2e.parity.sides import Answer, Both, Side

_LIMIT: Final = 3 * 1024 * 1024
_JSON: Final = "application/json"
_MERGE: Final = "application/merge-patch+json"
_FAR: Final = "999999999"


def cause(answer: Answer) -> list[Any]:
    """Code and reason, if the text is a parser's own."""
    return [answer.code, answer.body["reason"]]


def refusal(answer: Answer) -> list[Any]:
    """Code, type and the whole body."""
    return [answer.code, answer.headers.get("content-type"), answer.headers.get("retry-after"), answer.body]


@pytest.mark.promise("G1-08")
async def test_paths_and_methods_that_are_not_there(both: Both) -> None:
    """A missing path is 404, a Status in known groups and else plain text, and an unknown method is 405."""
    await compare(
        both,
        get("/nothing", 404),
        get("/apis/example.com/v1/things", 404),
        get("/apis/apps/v1/things", 404),
        get("/api/v1/things", 404),
        get("pods/x/things", 404),
        get("pods/x", 404),
        post("/api/v1/pods", {}, 405),
        delete("/api/v1/pods", 405),
        post("pods/x", {}, 405),
        get("pods/x/binding", 405),
    )


async def test_a_body_has_three_mebibytes_at_most(both: Both) -> None:
    """A body above 3 MiB is 413 in each writing method, and a read's body does not matter."""

    async def observe(side: Side) -> Any:
        await side.call("POST", maps(side), body=config_map("c"))
        big = b'{"metadata":{"name":"b"},"data":{"x":"' + b"x" * _LIMIT + b'"}}'
        found = [
            refusal(await side.call(method, path, raw=big, content_type=content_type))
            for method, path, content_type in (
                ("POST", maps(side), _JSON),
                ("PUT", maps(side, "c"), _JSON),
                ("PATCH", maps(side, "c"), _MERGE),
                ("DELETE", maps(side, "c"), _JSON),
            )
        ]
        read = await side.call("GET", maps(side, "c"), raw=big)
        fits = b" " * (_LIMIT - 100) + b'{"metadata":{"name":"fits"}}'
        return [found, read.code, (await side.call("POST", maps(side), raw=fits)).code]

    found, read, fits = await both.same(observe)
    assert [each[0] for each in found] == [413] * 4
    assert (read, fits) == (200, 201)


@pytest.mark.parametrize("body", [b"this is not JSON", b"", b"[]", b"\xff\xfe", b"{}", b"null"])
async def test_a_body_that_is_no_object(both: Both, body: bytes) -> None:
    """A body that is no JSON object is 400, and an empty object or null, which lacks a name, is 422."""

    async def observe(side: Side) -> Any:
        await side.call("POST", maps(side), body=config_map("c"))
        found = [cause(await side.call("POST", maps(side), raw=body, headers={"content-type": _JSON}))]
        if body not in (b"", b"null", b"{}", b"[]"):
            found.append(cause(await side.call("DELETE", maps(side, "c"), raw=body)))
        return found

    seen = await both.same(observe)
    assert {code for code, *_ in seen} == ({422} if body in (b"{}", b"null") else {400})


@pytest.mark.promise("G1-08")
async def test_media_types(both: Both) -> None:
    """A body of an unknown type is 415, and an answer of a type that cannot be given 406."""

    async def observe(side: Side) -> Any:
        await side.call("POST", maps(side), body=config_map("c"))
        found = [
            refusal(await side.call(method, maps(side, name), raw=b"<x/>", content_type=content_type))
            for method, name, content_type in (
                ("POST", "", "application/xml"),
                ("PUT", "c", "text/plain"),
                ("PATCH", "c", _JSON),
            )
        ]
        untyped = await side.http.request("POST", maps(side), content=b'{"metadata":{"name":"untyped"}}')
        found += [
            refusal(await side.call("GET", maps(side, "c"), headers={"accept": accept}))
            for accept in ("application/xml", "application/json;as=Odd;v=v1;g=meta.k8s.io")
        ]
        return [found, untyped.status_code]

    found, untyped = await both.same(observe)
    assert [each[0] for each in found] == [415] * 3 + [406] * 2
    assert untyped == 201


@pytest.mark.promise("G1-08")
async def test_versions_that_cannot_be(both: Both) -> None:
    """A version that is not reached is 504 with a time to retry, and a senseless one is refused."""
    await compare(
        both,
        post("configmaps", config_map("c")),
        get("configmaps", 504, resourceVersion=_FAR),
        get("configmaps/c", 504, resourceVersion=_FAR),
        get("configmaps", 400, resourceVersion="abc"),
        get("configmaps", 400, limit="abc"),
        get("configmaps", 400, **{"continue": "nonsense"}),
        get("configmaps", 422, resourceVersionMatch="Exact"),
        get("configmaps", 422, sendInitialEvents="true"),
        get("configmaps", 422, watch="1", sendInitialEvents="true"),
    )


@pytest.mark.promise("G1-05")
async def test_a_watch_from_version_1_after_a_restart(bare_sides: Both) -> None:
    """A watch from an old version after a restart ends with one 410 ERROR event, unless it asks for initial events."""

    async def observe(side: Side) -> Any:
        await side.call("POST", "/api/v1/namespaces", body={"metadata": {"name": "restarted"}})
        mine = replace(side, namespace="restarted")
        versions = []
        for number in range(3):
            created = await mine.call("POST", maps(mine), body=config_map(f"c{number}"))
            versions.append(created.body["metadata"]["resourceVersion"])
        page = await mine.call("GET", maps(mine), params={"limit": "2"})
        await mine.call("POST", maps(mine), body=config_map("later"))
        await side.compact()
        await side.cluster.restart_api_server()
        found = [await gone(mine, maps(mine), params) for params in old_lists(versions[0], page)]
        initial = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
        begun = await watched(mine, maps(mine), versions[0], **initial)
        newest = (await mine.call("GET", maps(mine))).body["metadata"]["resourceVersion"]
        return [
            [await watched(mine, maps(mine), version) for version in ("1", versions[0], newest)],
            found,
            [event["type"] for event in begun][:5],
        ]

    watches, lists, begun = await bare_sides.same(observe)
    assert [[event["type"] for event in events] for events in watches] == [["ERROR"], ["ERROR"], []]
    assert [each[0] for each in lists] == [410, 410, 410]
    assert begun == ["ADDED"] * 4 + ["BOOKMARK"]


def old_lists(version: str, page: Answer) -> list[dict[str, str]]:
    """Lists that need history."""
    return [
        {"resourceVersion": version, "resourceVersionMatch": "Exact"},
        {"resourceVersion": version, "limit": "1"},
        {"limit": "2", "continue": page.body["metadata"]["continue"]},
    ]


async def gone(side: Side, path: str, params: dict[str, str]) -> list[Any]:
    """A list's refusal; a new token in it only as being there."""
    found = refusal(await side.call("GET", path, params=params))
    found[3]["metadata"] = sorted(found[3]["metadata"])
    return found


async def watched(side: Side, path: str, version: str, **params: str) -> list[Any]:
    """The events of a watch of a second."""
    async with side.watch(path, {"resourceVersion": version, "timeoutSeconds": "1", **params}) as events:
        return [event async for event in events]


async def test_a_watch_of_what_is_to_come_waits(both: Both) -> None:
    """A watch of a version that is not reached is no error and shows nothing before it."""

    async def observe(side: Side) -> Any:
        params = {"resourceVersion": _FAR, "timeoutSeconds": "1"}
        async with side.watch(maps(side), params) as events:
            await side.call("POST", maps(side), body=config_map("c"))
            return [event async for event in events]

    assert await both.same(observe) == []
