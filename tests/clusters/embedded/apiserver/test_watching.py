"""Promises of clusters.embedded.apiserver.watching, over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from clusters.api.api_client import ApiClient
from clusters.api.connection import Connection, Stream
from clusters.api.resources import CONFIG_MAPS, PODS
from clusters.embedded.apiserver.deletion import DeleteOptions
from clusters.embedded.apiserver.server import EmbeddedApi
from tests.clusters.embedded.apiserver.samples import config_map, pod
from tests.embedded_api import client_of
from tests.servers import until

PATH = "/api/v1/namespaces/default/configmaps"
Event = dict[str, Any]


class Watch:
    """One watch request, event by event."""

    def __init__(self, response: Stream) -> None:
        self.code = response.status_code
        self._lines = response.lines()

    async def next(self) -> Event:
        """The next event; the limit is against hangs."""
        async with asyncio.timeout(300):
            return dict(json.loads(await anext(self._lines)))

    async def rest(self) -> list[Event]:
        """All events until the server ends the watch."""
        async with asyncio.timeout(300):
            return [json.loads(line) async for line in self._lines]


@contextlib.asynccontextmanager
async def watching(url: str, path: str = PATH, **params: str) -> AsyncIterator[Watch]:
    """A watch with its own connection."""
    async with (
        Connection(url) as http,
        http.stream("GET", path, params={"watch": "1", **params}) as response,
    ):
        yield Watch(response)


def said(event: Event) -> tuple[str, str]:
    """Its type, and which object."""
    return event["type"], event["object"]["metadata"].get("name", "")


async def test_a_watch_shows_what_is_there_and_then_what_changes(embedded: EmbeddedApi) -> None:
    """A watch without a version shows the present state first; a deletion carries the last state at its own version."""
    url = await embedded.start()
    embedded.writes.create(CONFIG_MAPS, "default", config_map("a", x="1"))
    async with watching(url) as watch:
        assert said(await watch.next()) == ("ADDED", "a")
        embedded.writes.replace(CONFIG_MAPS, "default", "a", config_map("a", x="2"))
        assert said(await watch.next()) == ("MODIFIED", "a")
        embedded.writes.delete(CONFIG_MAPS, "default", "a", DeleteOptions())
        gone = await watch.next()

    assert (gone["type"], gone["object"]["data"]) == ("DELETED", {"x": "2"})
    assert gone["object"]["kind"] == "ConfigMap"
    assert gone["object"]["metadata"]["resourceVersion"] == str(embedded.store.version)


async def test_a_watch_goes_on_after_a_list(embedded: EmbeddedApi, client: ApiClient) -> None:
    """A watch from a list's version loses and repeats no event, and leaves out other namespaces and kinds."""
    await client.create(config_map("a"))
    listed = await client.request("GET", PATH)
    await client.create(config_map("b"))
    await client.create(pod())
    await client.create(config_map("elsewhere"), "kube-system")
    await client.create(config_map("c"))
    url = f"http://{embedded.address}"
    async with watching(url, resourceVersion=listed["metadata"]["resourceVersion"]) as watch:
        assert [said(await watch.next()) for _ in range(2)] == [("ADDED", "b"), ("ADDED", "c")]


async def test_a_version_too_old_is_an_error_event(embedded: EmbeddedApi) -> None:
    """A watch from a version that is too old is answered with 200 and an error event of code 410, as on the real server."""
    url = await embedded.start()
    embedded.writes.create(CONFIG_MAPS, "default", config_map())
    embedded.expire_history()
    async with watching(url, resourceVersion="1") as watch:
        assert watch.code == 200
        (event,) = await watch.rest()

    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")


async def test_a_watch_that_cannot_keep_up_gets_an_error() -> None:
    """More changes together than are remembered: 410 in the middle of a watch."""
    server = EmbeddedApi(history=3)
    url = await server.start()
    async with watching(url, resourceVersion=str(server.store.version)) as watch:
        for number in range(10):
            server.writes.create(CONFIG_MAPS, "default", config_map(f"c{number}"))
        events = await watch.rest()
    await server.stop()

    assert [event["type"] for event in events] == ["ERROR"]


async def test_late_events_come_in_order_and_none_is_lost() -> None:
    """A watch that is late shows each change, in the order of the versions."""
    server = EmbeddedApi(watch_lag=0.05)
    url = await server.start()
    async with watching(url, resourceVersion=str(server.store.version)) as watch:
        for number in range(50):
            server.writes.create(CONFIG_MAPS, "default", config_map(f"c{number}"))
            await asyncio.sleep(0)
        events = [await watch.next() for _ in range(50)]
    await server.stop()

    assert [said(event) for event in events] == [("ADDED", f"c{number}") for number in range(50)]


async def test_a_watch_ends_in_time_with_a_bookmark(embedded: EmbeddedApi) -> None:
    """Cleanly; the bookmark shows how far it has come, though only other kinds have changed."""
    url = await embedded.start()
    version = str(embedded.store.version)
    embedded.writes.create(PODS, "default", pod())
    params = {"resourceVersion": version, "allowWatchBookmarks": "true", "timeoutSeconds": "1"}
    async with watching(url, **params) as watch:
        (event,) = await watch.rest()

    assert event["type"] == "BOOKMARK"
    assert event["object"]["metadata"] == {"resourceVersion": str(embedded.store.version)}


@pytest.mark.promise("API-004")
async def test_initial_events_end_with_a_marked_bookmark(embedded: EmbeddedApi) -> None:
    """Newer clients ask for them in place of a list."""
    url = await embedded.start()
    embedded.writes.create(CONFIG_MAPS, "default", config_map("a"))
    params = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    async with watching(url, **params) as watch:
        assert said(await watch.next()) == ("ADDED", "a")
        bookmark = await watch.next()
        embedded.writes.create(CONFIG_MAPS, "default", config_map("b"))
        assert said(await watch.next()) == ("ADDED", "b")

    assert bookmark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


async def test_a_client_that_leaves_is_forgotten(embedded: EmbeddedApi) -> None:
    """No watch outlives its connection."""
    url = await embedded.start()
    async with watching(url):
        assert embedded.watches.number_open == 1
    await until(lambda: embedded.watches.number_open == 0)


class Picture:
    """The state of a watch's client: uid to version; and the events that it should not have got."""

    def __init__(self) -> None:
        self.versions: dict[str, str] = {}
        self.doubled: list[tuple[str, str]] = []

    async def follow(self, api: ApiClient) -> None:
        """For ever."""
        async for kind, item in api.watch(CONFIG_MAPS):
            if kind != "SYNCED":
                self.take(kind, item["metadata"]["uid"], item["metadata"]["resourceVersion"])

    def take(self, kind: str, uid: str, version: str) -> None:
        """One event."""
        if kind == "DELETED":
            del self.versions[uid]
            return
        if self.versions.get(uid) == version or (kind == "ADDED") == (uid in self.versions):
            self.doubled.append((kind, version))
        self.versions[uid] = version


def disturb(server: EmbeddedApi, step: int) -> None:
    """One change, and now and then a closed watch or a history that is forgotten."""
    name = f"c{step % 7}"
    if server.store.get(CONFIG_MAPS, "default", name) is None:
        server.writes.create(CONFIG_MAPS, "default", config_map(name))
    elif step % 3:
        server.writes.replace(CONFIG_MAPS, "default", name, config_map(name, step=str(step)))
    else:
        server.writes.delete(CONFIG_MAPS, "default", name, DeleteOptions())
    if step % 10 == 9:
        server.close_watches()
    if step % 25 == 24:
        server.expire_history()


async def test_a_client_loses_and_doubles_nothing() -> None:
    """Changes, closed watches and expired histories, as they come: its picture is the server's in the end."""
    server = EmbeddedApi(history=4)
    picture = Picture()
    async with client_of(server) as api:
        following = asyncio.create_task(picture.follow(api))
        for step in range(300):
            disturb(server, step)
            await asyncio.sleep(0)
        truth = {each.item["metadata"]["uid"]: str(each.version) for each in server.store.all(CONFIG_MAPS)}
        await until(lambda: picture.versions == truth)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)

    assert picture.doubled == []
