from __future__ import annotations

import httpx2
import pytest

from clusters.kubelet.log_endpoint import LogEndpoint


class Source:
    """One pod with one container of three lines, and one that waits."""

    def pod_list(self):
        return [{"metadata": {"namespace": "default", "name": "p"}}]

    def container_log(self, namespace, pod, container, previous):
        if (namespace, pod) != ("default", "p"):
            raise LookupError(f"no pod {namespace}/{pod} here")
        if container == "waiting" or previous:
            raise ValueError("it is waiting to start")
        return ["one", "two", "drei ä"]


@pytest.fixture
async def http():
    endpoint = LogEndpoint(Source())
    port = await endpoint.start()
    async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as http:
        yield http
    await endpoint.stop()


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("/containerLogs/default/p/main", 200, "one\ntwo\ndrei ä\n"),
        ("/containerLogs/default/p/main?tailLines=1", 200, "drei ä\n"),
        ("/containerLogs/default/p/main?tailLines=0", 200, ""),
        ("/containerLogs/default/p/main?tailLines=99&follow=false", 200, "one\ntwo\ndrei ä\n"),
        ("/containerLogs/default/p/main?tailLines=-1", 400, "tailLines='-1' is not a whole number from 0 up\n"),
        ("/containerLogs/default/p/main?previous=true", 400, "it is waiting to start\n"),
        ("/containerLogs/default/p/waiting", 400, "it is waiting to start\n"),
        ("/containerLogs/default/q/main", 404, "no pod default/q here\n"),
        ("/healthz", 200, "ok"),
    ],
)
async def test_a_log_is_served_as_text(http, path, status, text):
    answer = await http.get(path)

    assert (answer.status_code, answer.text) == (status, text)
    assert answer.headers["content-type"].startswith("text/plain")


@pytest.mark.parametrize("path", ["/pods", "/pods/"])
async def test_the_pods_are_listed(http, path):
    assert (await http.get(path)).json()["items"] == [{"metadata": {"namespace": "default", "name": "p"}}]


async def test_what_is_not_served_says_what_is(http):
    assert (await http.get("/metrics")).status_code == 404
    assert (await http.post("/pods")).status_code == 405


async def test_a_log_is_followed_until_its_container_ends():
    """Lines that come later come later; the answer ends with the container."""

    class Growing(Source):
        lines = ["one"]
        state = {"running": {}}

        def pod_list(self):
            status = {"containerStatuses": [{"name": "main", "state": self.state}]}
            return [{"metadata": {"namespace": "default", "name": "p"}, "status": status}]

        def container_log(self, namespace, pod, container, previous):
            return self.lines

    source = Growing()
    endpoint = LogEndpoint(source)
    port = await endpoint.start()
    async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as http:
        async with http.stream("GET", "/containerLogs/default/p/main?follow=true&tailLines=5") as answer:
            found = answer.aiter_lines()
            first = await anext(found)
            source.lines.append("two")
            second = await anext(found)
            source.state = {"terminated": {}}
            rest = [line async for line in found]
    await endpoint.stop()
    assert (first, second, rest) == ("one", "two", [])


async def test_the_log_of_an_ended_container_is_not_waited_for(http):
    assert (await http.get("/containerLogs/default/p/main?follow=true")).text == "one\ntwo\ndrei ä\n"
