"""The log endpoint of the simulated kubelet."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from clusters.images.behaviour import Behaviour
from clusters.kubelet.log_endpoint import LogEndpoint
from clusters.kubelet.pods import Container, Kind
from clusters.kubelet.runtime import Run
from tests.servers import plain_http

NOW = 1_700_000_000.0


class Source:
    """One pod with one container of three lines a second apart, and one that waits."""

    def __init__(self) -> None:
        self.time = NOW - 3
        self.run = Run(Container("main", "img", Kind.APP, {}, (), ()), Behaviour(), 0, 1, lambda: self.time)
        for text in ("one", "two", "drei ä"):
            self.time += 1
            self.run.print(text)

    def container_log(self, namespace, pod, container, previous) -> Run:
        if (namespace, pod) != ("default", "p"):
            raise LookupError(f"no pod {namespace}/{pod} here")
        if container == "waiting" or previous:
            raise ValueError("it is waiting to start")
        return self.run


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
async def http(source) -> AsyncIterator[Any]:
    endpoint = LogEndpoint(source, lambda: NOW)
    port = await endpoint.start()
    async with plain_http(f"http://127.0.0.1:{port}") as http:
        yield http
    await endpoint.stop()


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("/containerLogs/default/p/main", 200, "one\ntwo\ndrei ä\n"),
        ("/containerLogs/default/p/main?tailLines=1", 200, "drei ä\n"),
        ("/containerLogs/default/p/main?tailLines=0", 200, ""),
        ("/containerLogs/default/p/main?tailLines=99&follow=false", 200, "one\ntwo\ndrei ä\n"),
        ("/containerLogs/default/p/main?tailLines=-1", 422, "tailLines=-1 is below 0"),
        ("/containerLogs/default/p/main?tailLines=two", 400, "tailLines='two' is not a whole number"),
        ("/containerLogs/default/p/main?sinceSeconds=1", 200, "two\ndrei ä\n"),
        ("/containerLogs/default/p/main?sinceSeconds=1&tailLines=1", 200, "drei ä\n"),
        ("/containerLogs/default/p/main?sinceTime=2023-11-14T22:13:20Z", 200, "drei ä\n"),
        (
            "/containerLogs/default/p/main?sinceTime=yesterday",
            400,
            "sinceTime='yesterday' is not a time such as 2026-01-31T12:00:00Z",
        ),
        (
            "/containerLogs/default/p/main?sinceSeconds=1&sinceTime=1970-01-01T00:01:00Z",
            422,
            "at most one of sinceTime and sinceSeconds may be given",
        ),
        ("/containerLogs/default/p/main?limitBytes=0", 422, "limitBytes=0 is below 1"),
        ("/containerLogs/default/p/main?limitBytes=6", 200, "one\ntw"),
        ("/containerLogs/default/p/main?tailLines=1&timestamps=true", 200, "2023-11-14T22:13:20.000000000Z drei ä\n"),
        ("/containerLogs/default/p/main?previous=true", 400, "it is waiting to start"),
        ("/containerLogs/default/p/waiting", 400, "it is waiting to start"),
        ("/containerLogs/default/q/main", 404, "no pod default/q here"),
    ],
)
async def test_a_log_is_served_as_text(http, path, status, text) -> None:
    """Every query of `kubectl logs` is obeyed, or refused with the kubelet's text."""
    answer = await http.get(path)

    assert (answer.status_code, answer.text) == (status, text)
    assert answer.headers["content-type"].startswith("text/plain")


async def test_what_is_not_served_says_what_is(http) -> None:
    """Other paths and methods have the statuses of HTTP."""
    assert (await http.get("/metrics")).status_code == 404
    assert (await http.post("/metrics")).status_code == 405


@pytest.mark.parametrize("verb", ["exec", "attach", "portForward"])
async def test_what_needs_a_process_is_refused(http, verb) -> None:
    """The endpoint refuses calls that need a process, because a simulated container has none."""
    upgrade = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1"}
    answer = await http.post(f"/{verb}/default/p/main?command=ls", headers=upgrade)

    assert answer.status_code == 501
    assert "no process runs" in answer.text


async def test_a_log_is_followed_until_its_container_ends(http, source) -> None:
    """Lines come as they are written; the last ones before it are counted as without following."""
    async with http.stream("GET", "/containerLogs/default/p/main?follow=true&tailLines=1") as answer:
        lines = answer.lines()
        seen = [await anext(lines)]
        source.run.print("four")
        seen.append(await anext(lines))
        source.run.print("five")
        source.run.finish(0)
        seen += [line async for line in lines]

    assert seen == ["drei ä".encode(), b"four", b"five"]


async def test_the_log_of_an_ended_container_is_not_waited_for(http, source) -> None:
    """Following it ends with its last line."""
    source.run.finish(0)

    assert (await http.get("/containerLogs/default/p/main?follow=true")).text == "one\ntwo\ndrei ä\n"


async def test_a_log_that_is_followed_ends_when_the_kubelet_stops(source) -> None:
    """A followed log ends with its last line when the kubelet stops."""
    endpoint = LogEndpoint(source, lambda: NOW)
    port = await endpoint.start()
    url = f"http://127.0.0.1:{port}/containerLogs/default/p/main?follow=true"
    async with plain_http() as http, http.stream("GET", url) as answer:
        lines = answer.lines()
        assert await anext(lines) == b"one"
        await endpoint.stop()
        assert [line async for line in lines] == [b"two", "drei ä".encode()]


async def test_a_limit_ends_a_log_that_is_followed(http) -> None:
    """The answer ends at the byte that was asked for."""
    answer = await http.get("/containerLogs/default/p/main?follow=true&limitBytes=5")

    assert answer.text == "one\nt"
