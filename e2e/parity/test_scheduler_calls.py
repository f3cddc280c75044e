"""The calls to an extender: the same bytes, in the same order, from both schedulers."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.parity.recording_extender import Answer, names_of
from e2e.parity.scheduler_under_test import MEMORY, play
from e2e.parity.sides import Both, Side


@pytest.mark.promise("EXT-001")
async def test_a_filter_with_a_node_cache(both: Both) -> None:
    """A filter call with a node cache has equal method, path, headers, order of keys, nulls and pod on both sides."""

    async def observe(side: Side) -> Any:
        async with play(side, {"a": 10, "b": 10}) as it:
            await it.pod("p1", 2)
            await it.bound("p1")
            (call,) = it.extender.of("filter")
            return [
                call.method,
                call.path,
                sorted(call.headers),
                {name: call.headers[name] for name in ("content-type", "accept-encoding", "user-agent")},
                list(call.message),
                sorted(call.message["NodeNames"]),
                call.message["Nodes"],
                call.message["Pod"],
            ]

    seen = await both.same(observe)
    assert seen[4] == ["Pod", "Nodes", "NodeNames"]
    assert "nodeName" not in seen[7]["spec"]


async def test_a_filter_without_a_node_cache(both: Both) -> None:
    """A filter call without a node cache has whole Node objects, and null for the names."""

    async def observe(side: Side) -> Any:
        async with play(side, {"a": 10, "b": 10}, nodeCacheCapable=None) as it:
            await it.pod("p1", 2)
            await it.bound("p1")
            (call,) = it.extender.of("filter")
            nodes = call.message["Nodes"]
            return [
                list(nodes),
                nodes["metadata"],
                sorted(nodes["items"], key=lambda item: str(item["metadata"]["name"])),
                call.message["NodeNames"],
            ]

    seen = await both.same(observe)
    assert seen[3] is None


@pytest.mark.promise("EXT-001")
async def test_a_bind_names_pod_and_node(both: Both) -> None:
    """A bind call names pod and node in four keys, and the scheduler reports Scheduled once the extender has bound."""

    async def observe(side: Side) -> Any:
        async with play(side, {"a": 10}, bindVerb="bind") as it:
            it.extender.on(bind=it.bind, filter=lambda call: Answer(call.message))
            uid = await it.pod("p1", 2)
            node = await it.bound("p1")
            event = await it.event("p1", "Scheduled")
            (call,) = it.extender.of("bind")
            return [it.extender.verbs(), call.message, call.message["PodUID"] == uid, node, event]

    assert (await both.same(observe))[0] == ["filter", "bind"]


async def test_prioritize_asks_the_same_as_filter(both: Both) -> None:
    """Prioritize is called with the nodes left and the pod of the filter call, and the best score wins."""

    async def observe(side: Side) -> Any:
        async with play(side, {"a": 10, "b": 10, "c": 10}, prioritizeVerb="prioritize", weight=1) as it:
            it.extender.on(
                filter=Answer({"NodeNames": ["a", "b"], "FailedNodes": {"c": "no"}, "Error": ""}),
                prioritize=Answer([{"Host": "a", "Score": 0}, {"Host": "b", "Score": 10}]),
            )
            await it.pod("p1", 2)
            node = await it.bound("p1")
            filtered, judged = it.extender.calls
            return [
                it.extender.verbs(),
                sorted(names_of(judged)),
                filtered.message["Pod"] == judged.message["Pod"],
                node,
            ]

    assert (await both.same(observe))[3] == "b"


@pytest.mark.promise("EXT-018", "G2-07")
async def test_one_node_left_is_taken_without_prioritize(both: Both) -> None:
    """The only node that is left is taken without a call of prioritize."""

    async def observe(side: Side) -> Any:
        async with play(side, {"a": 10}, prioritizeVerb="prioritize", weight=1) as it:
            await it.pod("p1", 2)
            await it.bound("p1")
            return it.extender.verbs()

    assert await both.same(observe) == ["filter"]


@pytest.mark.promise("G2-02")
async def test_who_is_interested(both: Both) -> None:
    """The extender is called for each pod with its resource in any container, also of amount 0, and for no other."""
    image = {"image": "none"}
    kinds: dict[str, dict[str, Any]] = {
        "plain": {"containers": [{"name": "main", **image}]},
        "zero": {"containers": [{"name": "main", **image, "resources": {"limits": {MEMORY: "0"}}}]},
        "limits": {"containers": [{"name": "main", **image, "resources": {"limits": {MEMORY: "1"}}}]},
        "init": {
            "containers": [{"name": "main", **image}],
            "initContainers": [{"name": "init", **image, "resources": {"limits": {MEMORY: "1"}}}],
        },
        "sidecar": {
            "containers": [{"name": "main", **image}],
            "initContainers": [
                {"name": "init", **image, "restartPolicy": "Always", "resources": {"limits": {MEMORY: "1"}}}
            ],
        },
        "second": {
            "containers": [
                {"name": "main", **image},
                {
                    "name": "other",
                    **image,
                    "resources": {"requests": {MEMORY: "1"}, "limits": {MEMORY: "1"}},
                },
            ]
        },
    }

    async def observe(side: Side) -> Any:
        async with play(side, {"a": 100}) as it:
            for name, spec in kinds.items():
                await it.pod(name, **spec)
                await it.bound(name)
            return [call.message["Pod"]["metadata"]["name"] for call in it.extender.of("filter")]

    assert await both.same(observe) == ["zero", "limits", "init", "sidecar", "second"]
