"""Lists (versions, pages, selectors) and watches (order, selections, bookmarks, initial events, how they end)."""

from __future__ import annotations

import time
from typing import Any, Final

import pytest

from e2e.parity.parity_requests import brief, config_map, got, made, maps, patched, place, pod, pods, short
from e2e.parity.sides import Both, Side


def names(body: Any) -> list[str]:
    """The names of a list's items, in its order."""
    return [each["metadata"]["name"] for each in body["items"]]


@pytest.mark.promise("G1-03")
async def test_a_page_that_is_too_old(bare: Both) -> None:
    """A page of a compacted version is 410 with a token for the rest, which is of another version."""

    async def observe(side: Side) -> Any:
        path = place(side, "events")
        for number in range(4):
            about = {"kind": "Pod", "namespace": side.namespace, "name": "p"}
            await made(side, path, {"metadata": {"name": f"e{number}"}, "involvedObject": about})
        page = await side.call("GET", path, params={"limit": "2"})
        await made(side, maps(side), config_map("later"))
        await side.cluster.compact()
        params = {"limit": "1", "continue": page.body["metadata"]["continue"]}
        gone = await side.call("GET", path, params=params)
        rest = await side.call("GET", path, params={"continue": gone.body["metadata"]["continue"]})
        return [short(gone), rest.code, names(rest.body)]

    gone, code, found = await bare.same(observe)
    assert (gone[0], gone[1]["reason"], code, found) == (410, "Expired", 200, ["e2", "e3"])


_INITIAL: Final = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
_SECONDS: Final = 2


async def version_of_list(side: Side) -> str:
    """Where a watch of the case's ConfigMaps may begin."""
    return str((await got(side, maps(side)))["metadata"]["resourceVersion"])


@pytest.mark.promise("API-003", "G1-02")
async def test_a_watch_goes_on_after_a_list(bare: Both) -> None:
    """A watch loses no change and reports none twice, and goes on at its version after an end without an error."""

    async def observe(side: Side) -> Any:
        await made(side, maps(side), config_map("a"))
        version, found = await version_of_list(side), []
        for number in range(3):
            params = {"resourceVersion": version, "timeoutSeconds": "1"}
            async with side.watch(maps(side), **params) as watch:
                await patched(side, maps(side, "a"), {"metadata": {"labels": {"during": str(number)}}})
                found += [event async for event in watch]
            version = found[-1]["object"]["metadata"]["resourceVersion"]
            await patched(side, maps(side, "a"), {"metadata": {"labels": {"between": str(number)}}})
        async with side.watch(maps(side), resourceVersion=version, timeoutSeconds="1") as watch:
            found += [event async for event in watch]
        return list(map(brief, found))

    seen = await bare.same(observe)
    assert [each[0] for each in seen] == ["MODIFIED"] * 6


@pytest.mark.promise("G1-06")
async def test_a_watch_ends_in_time(bare: Both) -> None:
    """A watch ends cleanly at timeoutSeconds, without an event."""

    async def observe(side: Side) -> Any:
        start = time.monotonic()
        async with side.watch(maps(side), timeoutSeconds=str(_SECONDS)) as watch:
            events = [event async for event in watch]
        return [events, time.monotonic() - start >= _SECONDS - 0.5]

    assert await bare.same(observe) == [[], True]


@pytest.mark.promise("API-004", "G1-04")
async def test_initial_events(bare: Both) -> None:
    """Each object ADDED, then a bookmark that marks the end of these, then the changes."""

    async def observe(side: Side) -> Any:
        for name in "ab":
            await made(side, maps(side), config_map(name))
        version = await version_of_list(side)
        async with side.watch(maps(side), **_INITIAL) as watch:
            added, mark = [await anext(watch), await anext(watch)], await anext(watch)
            await made(side, maps(side), config_map("c"))
            later = await anext(watch)
        reached = int(mark["object"]["metadata"]["resourceVersion"]) >= int(version)
        return [sorted(map(brief, added)), mark, reached, brief(later)]

    added, mark, reached, later = await bare.same(observe)
    assert [each[:2] for each in added] == [["ADDED", "a"], ["ADDED", "b"]]
    assert (mark["type"], mark["object"]["metadata"]["annotations"]) == (
        "BOOKMARK",
        {"k8s.io/initial-events-end": "true"},
    )
    assert reached
    assert later[:2] == ["ADDED", "c"]


@pytest.mark.promise("API-002", "G1-04")
async def test_a_bookmark_says_how_far_a_watch_has_come(bare: Both) -> None:
    """A bookmark comes only if it is asked for, and has a version and nothing else; a watch goes on from there."""

    async def observe(side: Side) -> Any:
        async with side.watch(maps(side), **_INITIAL, timeoutSeconds="4") as watch:
            mark = await anext(watch)
            await made(side, pods(side), pod("unrelated"))
            rest = [event async for event in watch]
        marks = [mark, *(each for each in rest if each["type"] == "BOOKMARK")]
        params = {"resourceVersion": marks[-1]["object"]["metadata"]["resourceVersion"], "timeoutSeconds": "1"}
        async with side.watch(maps(side), **params) as watch:
            await made(side, maps(side), config_map("later"))
            after = [event async for event in watch]
        kinds = [sorted(each["object"]) for each in marks[:1]]
        return [kinds, {each["object"]["kind"] for each in marks} == {"ConfigMap"}, list(map(brief, after))]

    kinds, same, after = await bare.same(observe)
    assert kinds == [["apiVersion", "kind", "metadata"]]
    assert same
    assert after == [["ADDED", "later", {}]]


@pytest.mark.promise("API-001", "G1-05")
async def test_a_version_that_is_forgotten(bare: Both) -> None:
    """200 and one ERROR event with a Status of 410; a list and a watch from there go on."""

    async def observe(side: Side) -> Any:
        path = f"/api/v1/namespaces/{side.namespace}/events"
        about = {"kind": "Pod", "namespace": side.namespace, "name": "p"}
        first = await made(side, path, {"metadata": {"name": "e0"}, "involvedObject": about})
        for name in ("e1", "e2"):
            await made(side, path, {"metadata": {"name": name}, "involvedObject": about})
        await side.cluster.compact()
        async with side.watch(path, resourceVersion=first["metadata"]["resourceVersion"], timeoutSeconds="5") as watch:
            events = [event async for event in watch]
        version = (await got(side, path))["metadata"]["resourceVersion"]
        async with side.watch(path, resourceVersion=version, timeoutSeconds="5") as watch:
            await made(side, path, {"metadata": {"name": "e3"}, "involvedObject": about})
            return [events, brief(await anext(watch))]

    events, after = await bare.same(observe)
    assert [(each["type"], each["object"]["code"], each["object"]["reason"]) for each in events] == [
        ("ERROR", 410, "Expired")
    ]
    assert after == ["ADDED", "e3", {}]


@pytest.mark.promise("API-003", "G1-05")
async def test_a_version_that_is_not_reached_yet(bare: Both) -> None:
    """A watch from there shows nothing, not even an error, until a change comes that is later still: so after a restore of etcd."""

    async def observe(side: Side) -> Any:
        version = int(await version_of_list(side)) + 40
        params = {"resourceVersion": str(version), "allowWatchBookmarks": "true", "timeoutSeconds": "60"}
        async with side.watch(maps(side), **params) as watch:
            made_at = [await made(side, maps(side), config_map(f"m{number}")) for number in range(45)]
            later = next(one for one in made_at if int(one["metadata"]["resourceVersion"]) > version)
            event = await anext(watch)
        return [event["type"], event["object"]["metadata"]["name"] == later["metadata"]["name"]]

    assert await bare.same(observe) == ["ADDED", True]
