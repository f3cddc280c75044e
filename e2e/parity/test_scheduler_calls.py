"""The calls to an extender: the same bytes, in the same order, from both schedulers; and binds that fail."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from e2e.parity.parity_requests import MEMORY
from e2e.parity.recording_extender import Answer, Call, let_through, names_of
from e2e.parity.scheduler_under_test import play, stage
from e2e.parity.sides import Both, Side


@pytest.mark.promise("EXT-001")
async def test_a_filter_with_and_without_a_node_cache(both: Both) -> None:
    """A filter call has equal method, path, headers, order of keys and pod on both sides, and either names or whole nodes."""

    async def observe(side: Side) -> Any:
        found = []
        for is_cached in (True, None):
            async with play(side, {"a": 10, "b": 10}, nodeCacheCapable=is_cached) as it:
                await it.pod("p1", 2)
                await it.bound("p1")
                (call,) = it.extender.of("filter")
                headers = {name: call.headers[name] for name in ("content-type", "accept-encoding", "user-agent")}
                asked, nodes = call.message, call.message["Nodes"] or {"items": []}
                items = sorted(nodes["items"], key=lambda item: str(item["metadata"]["name"]))
                names = asked["NodeNames"] and sorted(asked["NodeNames"])
                found.append([list(asked), names, {**nodes, "items": items}, asked["Pod"]])
                found.append([call.method, call.path, sorted(call.headers), headers])
        return found

    seen = await both.same(observe)
    assert (seen[0][0], seen[0][1], seen[2][1]) == (["Pod", "Nodes", "NodeNames"], ["a", "b"], None)
    assert "nodeName" not in seen[0][3]["spec"]


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


@pytest.mark.parametrize(("strategy", "expected"), [("MostAllocated", "a"), ("LeastAllocated", "b")])
async def test_strategy_prefers_fuller_or_emptier_nodes(both: Both, strategy: str, expected: str) -> None:
    """NodeResourcesFit scores nodes by gpu-mem for pods that ask for it, and other pods still by cpu and memory."""
    resources = [{"name": MEMORY, "weight": 10}, {"name": "cpu"}, {"name": "memory"}]
    arguments = {"scoringStrategy": {"type": strategy, "resources": resources}}
    plugins = [{"name": "NodeResourcesFit", "args": arguments}]
    configuration = {"profiles": [{"schedulerName": "default-scheduler", "pluginConfig": plugins}]}
    half = {"requests": {"cpu": "4", "memory": "16Gi"}}

    async def observe(side: Side) -> Any:
        async with stage(side) as it:
            await asyncio.gather(*(it.node(name) for name in ("a", "b")))
            await it.pod("on-a", 4, nodeName="a")
            await it.pod("on-b", 0, resources=half, nodeName="b")
            async with it.scheduler(configuration):
                await it.pod("shares", 2)
                found = [await it.bound("shares")]
                await it.pod("plain", 0, resources={"requests": {"cpu": "1", "memory": "1Gi"}})
                return [*found, await it.bound("plain")]

    plain = {"a": "b", "b": "a"}[expected]
    assert await both.same(observe) == [expected, plain]


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
    plain = {"name": "main", "image": "none"}
    zero, one = ({"name": "other", "image": "none", "resources": {"limits": {MEMORY: each}}} for each in "01")
    kinds: dict[str, dict[str, Any]] = {
        "plain": {"containers": [plain]},
        "zero": {"containers": [zero]},
        "limits": {"containers": [one]},
        "init": {"containers": [plain], "initContainers": [one]},
        "sidecar": {"containers": [plain], "initContainers": [{**one, "restartPolicy": "Always"}]},
        "second": {"containers": [plain, one]},
    }

    async def observe(side: Side) -> Any:
        async with play(side, {"a": 100}) as it:
            for name, spec in kinds.items():
                await it.pod(name, **spec)
                await it.bound(name)
            return [call.message["Pod"]["metadata"]["name"] for call in it.extender.of("filter")]

    assert await both.same(observe) == ["zero", "limits", "init", "sidecar", "second"]


@pytest.mark.promise("G2-10")
async def test_failed_bind_gives_the_room_back_and_is_tried_again(both: Both) -> None:
    """A failed bind is a SchedulerError with the extender's text, frees the room, and is tried again."""

    async def observe(side: Side) -> Any:
        async with play(side, {"a": 10}, bindVerb="bind") as it:
            failures = ["card is gone", "card is still gone"]

            it.extender.on(bind=lambda call: Answer({"Error": failures.pop(0)}) if failures else it.bind(call))
            await it.pod("p1", 10)
            condition = await it.condition("p1", text="card is gone")
            event = await it.event("p1", "FailedScheduling", text="card is gone")
            node = await it.bound("p1")
            await it.event("p1", "Scheduled")
            return [it.extender.verbs(), condition, event, node]

    seen = await both.same(observe)
    assert seen[0] == ["filter", "bind"] * 3


@pytest.mark.promise("EXT-025", "G2-06")
async def test_bound_though_the_answer_never_came(both: Both) -> None:
    """A pod that is bound though the call failed is not tried again, and an event shows the failure."""

    async def observe(side: Side) -> Any:
        async with play(side, {"a": 10}, bindVerb="bind", httpTimeout="2s") as it:
            over = asyncio.Event()

            async def bind(call: Call) -> Answer:
                answer = await it.bind(call)
                await over.wait()
                return answer

            it.extender.on(bind=bind)
            await it.pod("p1")
            node = await it.bound("p1")
            await it.event("p1", "FailedScheduling", text="exceeded")
            await it.settle()
            over.set()
            condition = await it.condition("p1", text="exceeded")
            return [it.extender.verbs(), node, condition["reason"]]

    assert (await both.same(observe))[0] == ["filter", "bind"]


@pytest.mark.promise("G2-01")
async def test_cycles_are_serial_and_binds_are_not(both: Both) -> None:
    """The scheduler asks one filter at a time, and binds all pods in parallel."""

    async def observe(side: Side) -> Any:
        async with play(side, {"a": 100}, bindVerb="bind") as it:
            release = asyncio.Event()
            running = 0
            most = 0

            async def respond(call: Call) -> Answer:
                nonlocal running, most
                if call.verb == "bind":
                    await release.wait()
                    return await it.bind(call)
                running += 1
                most = max(most, running)
                await asyncio.sleep(0)
                running -= 1
                return let_through(call)

            it.extender.respond = respond
            for number in range(5):
                await it.pod(f"p{number}")
            await it.calls("bind", 5)
            release.set()
            for number in range(5):
                await it.bound(f"p{number}")
            return [most, sorted(it.extender.verbs())]

    assert (await both.same(observe))[0] == 1
