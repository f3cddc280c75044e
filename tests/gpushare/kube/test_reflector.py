"""Promises of the reflector, against a server that does what API servers do."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gpushare.kube.reflector import Reflector
from gpushare.manifests import ObjectMeta, Pod
from tests.gpushare.kube.scripted_api import (
    CLOSE,
    DROP,
    HOLD,
    Answer,
    Call,
    ScriptedApi,
    Watch,
    client_of,
    event,
    listen,
    listing,
    status,
)
from tests.servers import until

PATH = "/api/v1/pods"
GONE_EVENT = event("ERROR", status(410, "Expired", "too old"))
GONE_EVENT_WATCH = Watch([GONE_EVENT, HOLD])


class Told:
    """Remembers what it hears; ``here`` is uid by name."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.here: dict[str, str] = {}

    def set(self, item: Pod) -> None:
        self.heard.append(f"set {item.metadata.name} {item.metadata.uid}")
        self.here[item.metadata.name] = item.metadata.uid

    def remove(self, metadata: ObjectMeta) -> None:
        self.heard.append(f"remove {metadata.name} {metadata.uid}")
        if self.here.get(metadata.name) == metadata.uid:
            del self.here[metadata.name]

    def restart_history(self) -> None:
        self.heard.append("restart history")


def pod(name: str, version: str, uid: str = "") -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "d", "uid": uid or f"u-{name}", "resourceVersion": version}}


def script(lists: list[Answer], watches: list[Any]) -> ScriptedApi:
    """Answers in this order; the last list is given again and again, and watches after the last hold."""

    def respond(call: Call) -> Any:
        if "watch" in call.query:
            count = len(api.of("GET", watch=True))
            return watches[count - 1] if count <= len(watches) else Watch([HOLD])
        return lists[min(len(api.of("GET")), len(lists)) - 1]

    api = ScriptedApi(respond)
    return api


@asynccontextmanager
async def following(url: str, told: Told, held: Sequence[ObjectMeta] = ()) -> AsyncIterator[Reflector[Pod]]:
    """A reflector at work; a failure of it is the test's."""
    async with client_of(url) as client:
        rng = random.Random(1)
        reflector: Reflector[Pod] = Reflector(client, PATH, Pod, told, rng=rng, held=lambda: held)
        running = asyncio.create_task(reflector.run())
        try:
            yield reflector
        finally:
            ended = running.done()
            running.cancel()
            await asyncio.wait([running])
            assert not ended, running.result()


async def hear(api: ScriptedApi, *names: str) -> tuple[Told, list[str]]:
    """Follow until exactly these are here and the last watch stands; returns the events, and the versions watched from."""
    told = Told()
    async with listen(api) as url, following(url, told):
        await until(lambda: set(told.here) == set(names) and api.calls[-1].query.get("watch") == "1")
    return told, [call.query["resourceVersion"] for call in api.of("GET", watch=True)]


async def test_a_list_whose_next_page_is_gone_is_read_in_one_piece() -> None:
    """No object is missing, and one that ended between the two lists is not there."""

    def respond(call: Call) -> Any:
        if "watch" in call.query:
            return Watch([HOLD])
        if "continue" in call.query:
            return Answer(status(410, "Expired"), 410)
        if "limit" in call.query:
            return listing("9", pod("a", "3"), pod("old", "3"), next_page="more")
        return listing("10", pod("a", "3"), pod("b", "10"))

    told, versions = await hear(ScriptedApi(respond), "a", "b")

    assert told.heard[-1] == "remove old u-old"
    assert versions == ["10"]


@pytest.mark.promise("API-002", "API-003", "API-004")
async def test_a_clean_close_goes_on_where_it_was() -> None:
    """After the list come the changes; from the last event or bookmark, which is asked for, without another list."""
    api = script(
        [listing("5", pod("a", "3"), pod("b", "4"))],
        [
            Watch([event("ADDED", pod("c", "6")), event("DELETED", pod("a", "7")), CLOSE]),
            Watch([event("BOOKMARK", {"metadata": {"resourceVersion": "9"}}), CLOSE]),
            Watch([event("ADDED", pod("d", "10")), HOLD]),
        ],
    )
    told, versions = await hear(api, "b", "c", "d")

    assert told.heard == ["set a u-a", "set b u-b", "set c u-c", "remove a u-a", "set d u-d"]
    assert versions == ["5", "7", "9"]
    assert len(api.of("GET")) == 1
    assert api.of("GET", watch=True)[0].query["allowWatchBookmarks"] == "true"


@pytest.mark.promise("API-001")
@pytest.mark.parametrize(
    "watch",
    [
        GONE_EVENT_WATCH,
        *(Answer(status(code), code) for code in (400, 410, 500, 504)),
        *(Watch([garbage, HOLD]) for garbage in (b"<html>\n", b'{"type":3}\n')),
    ],
)
async def test_a_watch_without_a_future_lists_again(watch: Any) -> None:
    """The reflector lists again after either form of 410, another refusal, and a line that is no event, which is not skipped over.

    It reports with its uid the pod whose deletion it missed.
    """
    api = script([listing("5", pod("a", "3"), pod("b", "4")), listing("20", pod("b", "4"), pod("c", "18"))], [watch])
    told, versions = await hear(api, "b", "c")

    assert "remove a u-a" in told.heard
    assert versions == ["5", "20"]


async def test_an_object_answered_during_a_list_stays() -> None:
    """It may have been created after the moment that the list shows."""
    told, held = Told(), list[ObjectMeta]()

    def respond(call: Call) -> Any:
        held.append(ObjectMeta("a", "d", "u-a"))
        return Watch([HOLD]) if "watch" in call.query else listing("5")

    async with listen(ScriptedApi(respond)) as url, following(url, told, held) as reflector:
        await reflector.synced.wait()

    assert told.heard == []


@pytest.mark.promise("API-003")
async def test_a_broken_connection_loses_nothing() -> None:
    """Half a line is no event; it comes again, whole. The server's version is asked for, and not its objects."""
    api = script(
        [listing("5"), listing("6", pod("a", "6"))],
        [
            Watch([event("ADDED", pod("a", "6")), b'{"type":"ADDED","object":{"metadata":{"na', DROP]),
            Watch([event("ADDED", pod("b", "7")), HOLD]),
        ],
    )
    told, versions = await hear(api, "a", "b")

    assert told.heard == ["set a u-a", "set b u-b"]
    assert versions == ["5", "6"]
    assert [call.query["limit"] for call in api.of("GET")] == ["500", "1"]


async def test_no_later_list_is_a_restore() -> None:
    """A list of the same version, or of a later one, goes on with the history; so does one after a restore."""
    api = script(
        [listing("9", pod("a", "3")), listing("9", pod("a", "3")), listing("4"), listing("6", pod("b", "5"))],
        [GONE_EVENT_WATCH] * 3,
    )
    told, _ = await hear(api, "b")

    assert told.heard == ["set a u-a", "set a u-a", "restart history", "remove a u-a", "set b u-b"]


@pytest.mark.parametrize("watches", [[Watch([DROP])], [Watch([CLOSE]), Watch([CLOSE])]], ids=["broken", "twice closed"])
async def test_a_server_that_was_away_may_be_restored(watches: list[Watch]) -> None:
    """A watch from a version that is not reached stays silent, so the version is asked for first."""
    lists = [listing("900", pod("a", "3")), listing("8"), listing("8", pod("b", "7"))]
    api, told = script(lists, watches), Told()
    async with listen(api) as url, following(url, told) as reflector:
        await until(lambda: "b" in told.here and api.calls[-1].query.get("watch") == "1")
        # Versions of the lost history do not count as reached, and those of the restored one do.
        assert [await reflector.come_to(version, 0) for version in (8, 900)] == [True, False]

    versions = [call.query["resourceVersion"] for call in api.of("GET", watch=True)]
    assert versions == [*["900"] * len(watches), "8"]
    assert told.heard == ["set a u-a", "restart history", "set b u-b", "remove a u-a"]
    assert [call.query["limit"] for call in api.of("GET")] == ["500", "1", "500"]


async def test_too_many_watches_is_no_reason_to_list() -> None:
    """Lists are what an API server under load can bear least."""
    api = script([listing("5")], [Answer(status(429), 429), Watch([event("ADDED", pod("a", "6")), HOLD])])
    _, versions = await hear(api, "a")

    assert versions == ["5", "5"]
    assert len(api.of("GET")) == 1


@pytest.mark.parametrize(
    ("first", "watched", "last", "heard"),
    [
        (
            "u1",
            event("MODIFIED", pod("a", "6", "u2")),
            [pod("a", "19", "u3")],
            ["set a u1", "remove a u1", "set a u2", "remove a u2", "set a u3"],
        ),
        ("u2", event("DELETED", pod("a", "6", "u1")), [], ["set a u2", "remove a u1", "remove a u2"]),
    ],
    ids=["a missed deletion", "a late deletion"],
)
async def test_recreated_under_the_same_name(
    first: str, watched: dict[str, Any], last: list[dict[str, Any]], heard: list[str]
) -> None:
    """The old one is removed first, whether its deletion was missed or comes late; the new one's end is still reported."""
    api = script([listing("5", pod("a", "3", first)), listing("20", *last)], [Watch([watched, GONE_EVENT])])
    told = Told()
    async with listen(api) as url, following(url, told):
        await until(lambda: len(told.heard) >= len(heard))

    assert told.heard == heard


@pytest.mark.parametrize(
    "watch", [Watch([CLOSE]), Answer(status(403, "Forbidden"), 403), Answer(status(410, "Gone"), 410)]
)
async def test_a_server_that_always_refuses_is_asked_ever_more_slowly(watch: Any) -> None:
    """Pauses double, so that a broken server is not asked in a tight loop. (A slow machine only makes them longer.)"""
    api = script([listing("5")], [watch] * 100)
    asked: list[float] = []
    respond = api.respond

    def timed(call: Call) -> Any:
        if "watch" in call.query:
            asked.append(asyncio.get_running_loop().time())
        return respond(call)

    api.respond = timed
    async with listen(api) as url, following(url, Told()):
        await until(lambda: len(asked) == 4)

    gaps = [later - earlier for earlier, later in itertools.pairwise(asked)]

    assert [gap >= least for gap, least in zip(gaps, (0.16, 0.32, 0.64), strict=True)] == [True] * 3


async def test_a_burst_leaves_turns_to_others() -> None:
    """500 events in one piece do not hold the loop: others run about every 32 events."""
    burst = b"".join(
        b'{"type":"ADDED","object":{"metadata":{"name":"p%d","uid":"u%d","resourceVersion":"%d"}}}\n' % (n, n, n)
        for n in range(500)
    )
    turns, between = 0, []

    class Counting(Told):
        def set(self, item: Pod) -> None:
            super().set(item)
            between.append(turns)

    told = Counting()
    async with listen(script([listing("1")], [Watch([burst, HOLD])])) as url, following(url, told):
        while len(told.here) < 500:
            turns += 1
            await asyncio.sleep(0)

    assert max(between.count(turn) for turn in set(between)) <= 32


async def test_a_handler_that_fails_ends_the_reflector() -> None:
    """A book with a hole must not go on as if it were whole."""

    class Failing(Told):
        def set(self, item: Pod) -> None:
            raise RuntimeError("a bug")

    async with listen(script([listing("1", pod("a", "1"))], [])) as url, client_of(url) as client:
        with pytest.raises(RuntimeError, match="a bug"):
            await Reflector(client, PATH, Pod, Failing()).run()


def odd(name: str, version: str, node: str | None = None) -> dict[str, Any]:
    """A pod with labels that are none."""
    item = pod(name, version)
    return item | {"metadata": item["metadata"] | {"labels": [1]}, "spec": {"nodeName": node}}


async def test_an_object_that_cannot_be_read_hides_no_other(caplog: pytest.LogCaptureFixture) -> None:
    """It is reported with its node, and what is known of it stays, also over a list, until it is gone."""
    steps = [odd("a", "6"), odd("c", "7", "n"), {"metadata": {"name": []}}, odd("a", "8")]
    api = script(
        [
            listing("5", pod("a", "3"), pod("b", "4")),
            listing("9", odd("a", "8"), odd("c", "7", "n"), pod("b", "4")),
            listing("20", {"metadata": {"name": []}}, pod("d", "19")),
            listing("30", pod("b", "4"), pod("d", "19")),
        ],
        [
            Watch([*(event("MODIFIED", step) for step in steps), event("ADDED", pod("x", "8")), GONE_EVENT]),
            Watch([GONE_EVENT]),
            Watch([GONE_EVENT]),
        ],
    )
    told, reported = Told(), list[tuple[str, str | None]]()
    async with listen(api) as url, client_of(url) as client:
        reflector = Reflector(
            client, PATH, Pod, told, rng=random.Random(1),
            on_unreadable=lambda one: reported.append((one.metadata.uid, one.spec.node_name)),
        )  # fmt: skip
        running = asyncio.create_task(reflector.run())
        await until(lambda: reflector.version == "30" and api.calls[-1].query.get("watch") == "1")
        running.cancel()

    assert told.heard == [
        *("set a u-a", "set b u-b", "set x u-x"),
        *("set b u-b", "remove x u-x"),
        "set d u-d",
        *("set b u-b", "set d u-d", "remove a u-a", "remove c u-c"),
    ]
    assert reported == [("u-a", None), ("u-c", "n"), ("u-a", None), ("u-a", None), ("u-c", "n")]
    assert reflector.contact.unreadable == 7
    assert sum("cannot be read" in record.getMessage() for record in caplog.records) == 3
