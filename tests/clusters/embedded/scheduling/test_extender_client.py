from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from clusters.embedded.scheduling.cluster_view import NodeInfo, node_info
from clusters.embedded.scheduling.configuration import ExtenderConfiguration
from clusters.embedded.scheduling.extender_client import ExtenderClient, ExtenderError
from clusters.embedded.scheduling.scheduler_messages import filter_request
from tests.clusters.embedded.scheduling.local_extender import Answer, Call, LocalExtender
from tests.clusters.embedded.scheduling.scheduling_objects import make_node, make_pod

POD = make_pod()
NODES = [node_info(make_node(name)) for name in ("n1", "n2", "n3")]


@pytest.fixture
async def extender() -> AsyncIterator[LocalExtender]:
    async with LocalExtender() as local:
        yield local


def client_of(extender: LocalExtender, **fields: Any) -> ExtenderClient:
    verbs = {"filter_verb": "filter", "prioritize_verb": "prioritize", "weight": 2, "bind_verb": "bind"}
    return ExtenderClient(
        ExtenderConfiguration(url_prefix=extender.url, **{**verbs, "node_cache_capable": True, **fields})
    )


def always(body: Any, status: int = 200) -> Any:
    async def respond(call: Call) -> Answer:
        return Answer(body, status)

    return respond


def names(nodes: list[NodeInfo]) -> list[str]:
    return [info.name for info in nodes]


async def test_filter_sends_names_as_one_post(extender: LocalExtender) -> None:
    """The body is kube-scheduler's, with the names of the nodes."""
    client = client_of(extender)
    answer = await client.filter(POD, NODES)
    await client.close()

    assert ["n1", "n2", "n3"] == names(answer.nodes)
    assert ["filter"] == extender.verbs()
    assert filter_request(POD, names=["n1", "n2", "n3"]) == extender.calls[0].body
    assert extender.calls[0].headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("body", "left"),
    [
        ({"NodeNames": [], "Nodes": None}, []),
        ({"NodeNames": None, "Nodes": {"items": [make_node("n2")]}}, ["n2"]),
        ({"NodeNames": None, "Nodes": None}, []),
        ({}, []),
    ],
    ids=["empty", "names-null", "both-null", "nothing"],
)
async def test_filter_with_a_node_cache_falls_back_to_nodes(
    extender: LocalExtender, body: Any, left: list[str]
) -> None:
    """Names count unless they are null; null for both is no node at all."""
    extender.respond = always(body)
    client = client_of(extender)
    answer = await client.filter(POD, NODES)
    await client.close()

    assert left == names(answer.nodes)


async def test_filter_without_a_node_cache_sends_and_reads_nodes(extender: LocalExtender) -> None:
    """Names in the answer are passed over, and returned nodes are not compared with those asked about."""
    extender.respond = always({"NodeNames": ["n1"], "Nodes": {"metadata": {}, "items": [make_node("other")]}})
    client = client_of(extender, node_cache_capable=False)
    answer = await client.filter(POD, NODES)
    await client.close()

    assert ["other"] == names(answer.nodes)
    assert filter_request(POD, nodes=[info.node for info in NODES]) == extender.calls[0].body


@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        ({"NodeNames": ["n1", "n4"]}, 200, 'claims a filtered node "n4"'),
        ({"NodeNames": ["n1"], "Error": "cache is cold"}, 200, "^cache is cold$"),
        ({"NodeNames": ["n1"]}, 201, "code 201"),
        (b"", 204, "code 204"),
        (
            {"Error": "never read"},
            500,
            r"^failed filter with extender at URL http://127.0.0.1:\d+/.*/filter, code 500$",
        ),
        ({"NodeNames": "n1"}, 200, "Expected `array | null`"),
        (b"", 200, "no JSON"),
        ({"Nodes": {"items": [make_node(allocatable={"cpu": "?"})]}}, 200, "is not a quantity"),
    ],
    ids=["unknown-name", "error", "201", "204", "500", "wrong-type", "empty", "bad-node"],
)
async def test_filter_fails_as_a_whole(extender: LocalExtender, body: Any, status: int, text: str) -> None:
    """An answer with a fault anywhere lets no node through."""
    extender.respond = always(body, status)
    client = client_of(extender)

    with pytest.raises(ExtenderError, match=text):
        await client.filter(POD, NODES)

    await client.close()


async def test_filter_ends_after_the_timeout(extender: LocalExtender) -> None:
    """Connecting, waiting and reading together."""

    async def never(call: Call) -> Answer:
        await asyncio.Event().wait()
        return Answer()

    extender.respond = never
    client = client_of(extender, http_timeout="50ms")

    with pytest.raises(ExtenderError, match="deadline of 0.05 s exceeded"):
        await client.filter(POD, NODES)

    await client.close()


async def test_prioritize_weighs_the_scores(extender: LocalExtender) -> None:
    """Each score is multiplied by the extender's weight."""
    extender.respond = always([{"Host": "n1", "Score": 7}, {"Host": "n9", "Score": 1}])
    client = client_of(extender)
    scores = await client.prioritize(POD, NODES)
    await client.close()

    assert [("n1", 14), ("n9", 2)] == scores
