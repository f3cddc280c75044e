"""The events that give a refused pod another try, and those that do not."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from e2e.parity.recording_extender import Answer, Call, let_through, refuse
from e2e.parity.scheduler_stage import BACKOFF, MEMORY, Stage, entry, play, stage
from e2e.parity.sides import Both, Side

Trigger = Callable[[Stage], Awaitable[object]]


def refusing(name: str) -> Callable[[Call], Awaitable[Answer]]:
    """An extender that refuses one pod and no other."""

    async def respond(call: Call) -> Answer:
        if call.message["Pod"]["metadata"]["name"] == name:
            return refuse(call, "not now")
        return let_through(call)

    return respond


async def tries(it: Stage, name: str = "waiting") -> int:
    """How often the extender was asked about the pod, once the scheduler has come to rest."""
    await it.settle()
    return sum(call.message["Pod"]["metadata"]["name"] == name for call in it.extender.of("filter"))


async def is_woken(side: Side, trigger: Trigger, prepare: Trigger | None = None) -> bool:
    """Whether a pod that the extender refused is tried again after something happened.

    How often depends on how close the events of one change come together; how often before, on when a controller's last word
    on the new node comes.
    """
    async with play(side, {"a": 10}) as it:
        if prepare is not None:
            await prepare(it)
        it.extender.respond = refusing("waiting")
        await it.pod("waiting")
        await it.condition("waiting", text="not now")
        before = await tries(it)
        await trigger(it)
        return await tries(it) > before


async def test_the_own_condition_is_a_change(both: Both) -> None:
    """A10: writing PodScheduled=False changes the pod, and a changed pod is tried once more, not for ever."""

    async def observe(side: Side) -> Any:
        async with play(side, {"a": 10}) as it:
            it.extender.respond = refusing("waiting")
            await it.pod("waiting")
            await it.condition("waiting", text="not now")
            return [await tries(it), await tries(it)]

    seen = await both.same(observe)
    assert seen[0] == seen[1]


@pytest.mark.promise("EXT-035", "G2-11")
async def test_a_config_map_wakes_no_pod(both: Both) -> None:
    """A10: the scheduler does not watch them."""

    async def trigger(it: Stage) -> None:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "unhealthy-gpu-a"}}
        answer = await it.side.call("POST", f"/api/v1/namespaces/{it.side.namespace}/configmaps", body=body)
        assert answer.code == 201

    woken = await both.same(lambda side: is_woken(side, trigger))
    assert not woken


@pytest.mark.promise("EXT-035", "G2-11")
async def test_an_annotation_of_a_node_wakes(both: Both) -> None:
    """A10: any change of a node that the scheduler looks at, its annotations among them."""

    async def trigger(it: Stage) -> None:
        await it.change_node("a", {"metadata": {"annotations": {"cards": "healed"}}})

    woken = await both.same(lambda side: is_woken(side, trigger))
    assert woken


@pytest.mark.promise("G2-11")
async def test_a_condition_of_a_node_wakes(both: Both) -> None:
    """A10: a condition's status counts, its reason and heartbeat do not."""

    async def heartbeat(it: Stage) -> None:
        await it.change_node("a", {"status": {"images": [{"names": ["seen"], "sizeBytes": 1}]}}, status=True)

    woken = await both.same(lambda side: is_woken(side, heartbeat))
    assert not woken


@pytest.mark.promise("G2-11")
async def test_more_allocatable_wakes(both: Both) -> None:
    """A10: a card that is healthy again shows in the node's allocatable."""

    async def trigger(it: Stage) -> None:
        await it.change_node("a", {"status": {"allocatable": {MEMORY: "12"}}}, status=True)

    woken = await both.same(lambda side: is_woken(side, trigger))
    assert woken


@pytest.mark.promise("G2-11")
async def test_a_new_node_wakes(both: Both) -> None:
    """A10: nodes that come."""

    async def observe(side: Side) -> Any:
        async with play(side, {"a": 10}) as it:
            it.extender.respond = refusing("waiting")
            await it.pod("waiting")
            await it.condition("waiting", text="0/1 nodes")
            await it.settle()
            await it.node("b")
            return (await it.condition("waiting", text="2 not now"))["message"]

    assert "2 not now" in await both.same(observe)


@pytest.mark.promise("G2-11")
async def test_a_pod_that_goes_wakes(both: Both) -> None:
    """A10: an assigned pod that is deleted."""

    async def trigger(it: Stage) -> None:
        await it.delete_pod("neighbour")

    woken = await both.same(lambda side: is_woken(side, trigger, lambda it: it.pod("neighbour", nodeName="a")))
    assert woken


@pytest.mark.promise("G2-11")
async def test_a_pod_that_ends_wakes(both: Both) -> None:
    """A10: an assigned pod that succeeds leaves its room, though the object stays."""

    async def trigger(it: Stage) -> None:
        await it.change_pod("neighbour", {"status": {"phase": "Succeeded"}}, status=True)

    woken = await both.same(lambda side: is_woken(side, trigger, lambda it: it.pod("neighbour", nodeName="a")))
    assert woken


@pytest.mark.promise("G2-11")
async def test_an_assigned_pod_wakes_pods_that_an_extender_refused(both: Both) -> None:
    """A10: since queueing hints are for good, every event of an assigned pod counts for an extender's refusal."""

    async def trigger(it: Stage) -> None:
        await it.pod("neighbour", nodeName="a")

    woken = await both.same(lambda side: is_woken(side, trigger))
    assert woken


@pytest.mark.promise("G2-11")
async def test_label_of_an_assigned_pod_wakes_an_extenders_refusals(both: Both) -> None:
    """A10: the same for its labels and annotations."""

    async def trigger(it: Stage) -> None:
        await it.change_pod("neighbour", {"metadata": {"annotations": {"a": "b"}}})

    woken = await both.same(lambda side: is_woken(side, trigger, lambda it: it.pod("neighbour", nodeName="a")))
    assert woken


async def test_a_waiting_pod_wakes_no_other(both: Both) -> None:
    """A10: a pod that comes, changes and goes without ever being assigned."""

    async def trigger(it: Stage) -> None:
        await it.pod("other", 0, nodeSelector={"no": "node"})
        await it.condition("other", text=" ")
        await it.change_pod("other", {"metadata": {"labels": {"a": "b"}}})
        await it.delete_pod("other")

    woken = await both.same(lambda side: is_woken(side, trigger))
    assert not woken


@pytest.mark.promise("G2-11")
async def test_an_own_label_wakes(both: Both) -> None:
    """A10: the waiting pod itself."""

    async def trigger(it: Stage) -> None:
        await it.change_pod("waiting", {"metadata": {"labels": {"a": "b"}}})

    woken = await both.same(lambda side: is_woken(side, trigger))
    assert woken


async def test_in_tree_refusals_wake_for_what_can_cure_them(both: Both) -> None:
    """A10: room for a pod without room, a label for one that wants it, an uncordon, a taint taken away; nothing else does."""

    async def observe(side: Side) -> Any:
        async with play(side, {"a": 1}) as it:
            await it.pod("room", 1)
            await it.bound("room")
            await it.pod("waiting", 1)
            await it.condition("waiting", text="Insufficient")
            seen = [await tries(it)]
            await it.change_node("a", {"metadata": {"annotations": {"not": "interesting"}}})
            await it.change_node("a", {"metadata": {"labels": {"not": "interesting"}}})
            seen.append(await tries(it))
            await it.change_node("a", {"status": {"allocatable": {MEMORY: "2"}}}, status=True)
            await it.bound("waiting")

            await it.pod("choosy", 0, nodeSelector={"zone": "x"})
            await it.condition("choosy", text="affinity/selector")
            await it.change_node("a", {"metadata": {"labels": {"zone": "x"}}})
            await it.bound("choosy")

            await it.change_node("a", {"spec": {"unschedulable": True}})
            await it.pod("late", 0)
            await it.condition("late", text="were unschedulable")
            await it.change_node("a", {"spec": {"unschedulable": None}})
            await it.bound("late")

            await it.change_node("a", {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}})
            await it.pod("clean", 0)
            await it.condition("clean", text="untolerated")
            await it.change_node("a", {"spec": {"taints": []}})
            await it.bound("clean")
            return seen

    assert await both.same(observe) == [0, 0]


async def test_gates_hold_a_pod_back(both: Both) -> None:
    """A10: a gated pod is not tried and not reported as unschedulable by the scheduler; without gates it goes."""

    async def observe(side: Side) -> Any:
        async with play(side, {"a": 10}) as it:
            await it.pod("gated", schedulingGates=[{"name": "example.com/wait"}])
            await it.settle()
            before = it.extender.verbs()
            condition = await it.condition("gated", text="")
            await it.change_pod("gated", {"spec": {"schedulingGates": []}})
            return [before, condition, await it.bound("gated")]

    seen = await both.same(observe)
    assert seen[0] == []


async def test_a_pod_that_is_being_deleted_is_skipped(both: Both) -> None:
    """A10: when its turn comes it is not tried, and an event reports it."""

    async def observe(side: Side) -> Any:
        async with play(side, {"a": 10}) as it:
            await it.pod("going", nodeSelector={"zone": "x"}, metadata={"finalizers": ["example.com/wait"]})
            await it.condition("going", text=" ")
            await it.delete_pod("going")
            await it.change_node("a", {"metadata": {"labels": {"zone": "x"}}})
            event = await it.event("going", "FailedScheduling", text="skip")
            await it.settle()
            node = (await it.pods())["going"]
            await it.change_pod("going", {"metadata": {"finalizers": None}})
            return [event, node, it.extender.verbs()]

    assert (await both.same(observe))[1:] == ["", []]


async def test_pods_of_another_scheduler_are_left_alone(both: Both) -> None:
    """A11: only those of the configured profiles are touched."""

    async def observe(side: Side) -> Any:
        profiles = [{"schedulerName": "default-scheduler"}, {"schedulerName": "gpushare-scheduler"}]
        async with play(side, {"a": 10}, configuration={"profiles": profiles}) as it:
            await it.pod("theirs", schedulerName="somebody-else")
            await it.pod("ours", schedulerName="gpushare-scheduler")
            await it.bound("ours")
            event = await it.event("ours", "Scheduled")
            await it.settle()
            return [await it.pods(), (await it.get_pod("theirs"))["status"].get("conditions"), event]

    assert (await both.same(observe))[0] == {"ours": "a", "theirs": ""}


async def test_the_most_important_goes_first(both: Both) -> None:
    """A5: by priority, whatever the order of their coming."""

    async def observe(side: Side) -> Any:
        async with stage(side) as it:
            await it.node("a", 100)
            for name, level in (("low", 1000), ("none", 0), ("high", 2000)):
                spec: dict[str, Any] = {"priorityClassName": await it.priority(level)} if level else {}
                await it.pod(name, **spec)
            async with side.scheduler({**BACKOFF, "extenders": [entry(it.extender)]}):
                for name in await it.pods():
                    await it.bound(name)
            return [call.message["Pod"]["metadata"]["name"] for call in it.extender.of("filter")]

    assert await both.same(observe) == ["high", "low", "none"]
