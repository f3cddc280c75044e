"""Promises of clusters.embedded.apiserver.pod_logs: the kubelet's own server is asked."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from clusters.api.api_client import ApiClient, ApiError
from clusters.api.resources import PODS
from tests.clusters.embedded.apiserver.samples import node, pod
from tests.servers import serve

PATH = PODS.path("default", "p", "log")


class KubeletLogs:
    """Answers a kubelet's path for logs and remembers what it was asked."""

    def __init__(self, code: int = 200, text: bytes = b"a line\n", *, endless: bool = False) -> None:
        self.asked: list[str] = []
        self.left = asyncio.Event()
        self._code, self._text, self._endless = code, text, endless

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.asked.append(f"{scope['path']}?{scope['query_string'].decode()}")
        await send({"type": "http.response.start", "status": self._code, "headers": []})
        await send({"type": "http.response.body", "body": self._text, "more_body": self._endless})
        while self._endless and (await receive())["type"] != "http.disconnect":
            pass
        self.left.set()


async def assign(client: ApiClient, url: str) -> None:
    """A pod on a node with a kubelet at ``url``."""
    port = int(url.rpartition(":")[2])
    await client.create(node(daemonEndpoints={"kubeletEndpoint": {"Port": port}}))
    await client.create(pod(nodeName="n"))


async def test_a_log_comes_from_the_kubelet(client: ApiClient) -> None:
    """The server gets a log from the kubelet and forwards only the parameters that the kubelet understands."""
    kubelet = KubeletLogs()
    async with serve(kubelet) as url:
        await assign(client, url)
        assert await client.text(PATH, {"tailLines": "1", "pretty": "x"}) == "a line\n"

    assert kubelet.asked == ["/containerLogs/default/p/main?tailLines=1"]


async def test_a_followed_log_arrives_at_once_and_ends_with_its_reader(client: ApiClient) -> None:
    """Piece by piece; the kubelet's answer is not read on for a client that has gone."""
    kubelet = KubeletLogs(endless=True)
    async with serve(kubelet) as url:
        await assign(client, url)
        async with asyncio.timeout(300), client.http.stream("GET", PATH, params={"follow": "true"}) as response:
            assert await anext(response.pieces()) == b"a line\n"
        async with asyncio.timeout(300):
            await kubelet.left.wait()


async def test_a_kubelets_refusal_is_passed_on(client: ApiClient) -> None:
    """The server passes the kubelet's code and text on."""
    async with serve(KubeletLogs(400, b"no logs of a container that waits")) as url:
        await assign(client, url)
        with pytest.raises(ApiError, match="no logs of a container that waits") as caught:
            await client.text(PATH)

    assert caught.value.code == 400


async def test_no_log_without_a_container_a_node_or_a_kubelet(client: ApiClient) -> None:
    """Each gets an error of its own."""
    two = pod("two")
    two["spec"]["containers"].append({"name": "other", "image": "i"})
    await client.create(pod("waiting"))
    await client.create(two)
    await client.create(pod("lost", nodeName="nowhere"))
    await client.create(pod("mute", nodeName="n"))
    await client.create(node("n"))
    expected = {
        "waiting": "does not have a host assigned",
        "two": r"choose one of: \[main other\]",
        "lost": 'node "nowhere" does not exist',
        "mute": "does not say on which port",
    }
    for name, text in expected.items():
        with pytest.raises(ApiError, match=text):
            await client.text(PODS.path("default", name, "log"))
    with pytest.raises(ApiError, match="container x is not valid"):
        await client.text(PODS.path("default", "two", "log"), {"container": "x"})


async def test_a_kubelet_that_is_away_is_an_error_that_names_it(client: ApiClient) -> None:
    """500 with the address."""
    await client.create(node(daemonEndpoints={"kubeletEndpoint": {"Port": 1}}))
    await client.create(pod(nodeName="n"))
    with pytest.raises(ApiError, match=r"127\.0\.0\.1:1/containerLogs/default/p/main"):
        await client.text(PATH)
