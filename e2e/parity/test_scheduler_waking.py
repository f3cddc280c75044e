"""The events that give a refused pod another try, and those that do not."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from e2e.parity.parity_objects import MEMORY, Object
from e2e.parity.recording_extender import Answer, Call, let_through, refuse
from e2e.parity.scheduler_under_test import SchedulerUnderTest, play, stage
from e2e.parity.sides import Both, Side

Trigger = Callable[[SchedulerUnderTest], Awaitable[object]]


def refusing(call: Call) -> Answer:
    """The answer of an extender that refuses one pod and no other."""
    is_waiting = call.message["Pod"]["metadata"]["name"] == "waiting"
    return refuse(call, "not now") if is_waiting else let_through(call)


async def tries(it: SchedulerUnderTest, name: str = "waiting") -> int:
    """How often the extender was asked about the pod, once the scheduler has come to rest."""
    await it.settle()
    return sum(call.message["Pod"]["metadata"]["name"] == name for call in it.extender.of("filter"))


async def is_woken(side: Side, trigger: Trigger, prepare: Trigger | None, *, expected: bool) -> bool:
    """Whether a pod that the extender refused is tried again after something happened.

    The number of tries is not compared: it depends on how close together events come. An ``expected`` try is waited for, since
    the scheduler may come to rest before it learns of the change; raises NotReachedError if it does not come.
    """
    async with play(side, {"a": 10}) as it:
        if prepare is not None:
            await prepare(it)
        it.extender.on(filter=refusing)
        await it.pod("waiting")
        await it.condition("waiting", text="not now")
        before = await tries(it)
        await trigger(it)
        if expected:
            await it.calls("filter", before + 1)
        return await tries(it) > before


async def config_map(it: SchedulerUnderTest) -> None:
    """A ConfigMap comes: the scheduler does not watch them."""
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "unhealthy-gpu-a"}}
    answer = await it.side.call("POST", f"/api/v1/namespaces/{it.side.namespace}/configmaps", body=body)
    assert answer.code == 201


async def waiting_pod(it: SchedulerUnderTest) -> None:
    """A pod comes, changes and goes without ever being assigned."""
    await it.pod("other", 0, nodeSelector={"no": "node"})
    await it.condition("other", text=" ")
    await it.change_pod("other", {"metadata": {"labels": {"a": "b"}}})
    await it.delete_pod("other")


def node(patch: Object, *, status: bool = False) -> Trigger:
    return lambda it: it.change_node("a", patch, status=status)


def pod(name: str, patch: Object, *, status: bool = False) -> Trigger:
    return lambda it: it.change_pod(name, patch, status=status)


def neighbour(it: SchedulerUnderTest) -> Awaitable[object]:
    """A pod is assigned to the node."""
    return it.pod("neighbour", nodeName="a")


_ANNOTATED: Object = {"metadata": {"annotations": {"cards": "healed"}}}
# The change, whether there is a neighbour before it, and whether it wakes the pod.
CHANGES: dict[str, tuple[Trigger, bool, bool]] = {
    "a ConfigMap": (config_map, False, False),
    "a pod that waits": (waiting_pod, False, False),
    "images of a node": (
        node({"status": {"images": [{"names": ["seen"], "sizeBytes": 1}]}}, status=True),
        False,
        False,
    ),
    "an annotation of a node": (node(_ANNOTATED), False, True),
    "more allocatable": (node({"status": {"allocatable": {MEMORY: "12"}}}, status=True), False, True),
    "an assigned pod": (neighbour, False, True),
    "an annotation of an assigned pod": (pod("neighbour", _ANNOTATED), True, True),
    "the end of an assigned pod": (pod("neighbour", {"status": {"phase": "Succeeded"}}, status=True), True, True),
    "an assigned pod that goes": (lambda it: it.delete_pod("neighbour"), True, True),
    "an annotation of the pod itself": (pod("waiting", _ANNOTATED), False, True),
}


@pytest.mark.promise("EXT-035", "G2-11")
@pytest.mark.parametrize("change", CHANGES)
async def test_which_changes_wake_a_pod_that_an_extender_refused(both: Both, change: str) -> None:
    """A refused pod is tried again only after changes of itself, assigned pods, or a node's annotations or amounts."""
    trigger, has_neighbour, expected = CHANGES[change]
    prepare = neighbour if has_neighbour else None

    assert await both.same(lambda side: is_woken(side, trigger, prepare, expected=expected)) is expected


async def test_in_tree_refusals_wake_for_what_can_cure_them(both: Both) -> None:
    """A pod that the scheduler refused is tried when room, label, cordon or taint changes for it."""

    async def observe(side: Side) -> Any:
        async with play(side, {"a": 1}) as it:
            await it.pod("room", 1)
            await it.bound("room")
            await it.pod("waiting", 1)
            await it.condition("waiting", text="Insufficient")
            await it.change_node("a", {"status": {"allocatable": {MEMORY: "2"}}}, status=True)
            await it.bound("waiting")

            await it.pod("choosy", 0, nodeSelector={"zone": "x"})
            await it.condition("choosy", text="affinity/selector")
            await it.change_node("a", {"metadata": {"labels": {"zone": "x"}}})
            await it.bound("choosy")

            # The labels make each pod wait until the scheduler knows the node as it is now.
            await it.change_node("a", {"metadata": {"labels": {"zone": "y"}}, "spec": {"unschedulable": True}})
            await it.pod("late", 0, nodeSelector={"zone": "y"})
            await it.condition("late", text="were unschedulable")
            await it.change_node("a", {"spec": {"unschedulable": None}})
            await it.bound("late")

            taint = {"key": "k", "effect": "NoSchedule"}
            await it.change_node("a", {"metadata": {"labels": {"zone": "z"}}, "spec": {"taints": [taint]}})
            await it.pod("clean", 0, nodeSelector={"zone": "z"})
            await it.condition("clean", text="untolerated")
            await it.change_node("a", {"spec": {"taints": []}})
            await it.bound("clean")
            return [call.message["Pod"]["metadata"]["name"] for call in it.extender.of("filter")]

    assert await both.same(observe) == ["room", "waiting"]


async def test_gates_hold_a_pod_back(both: Both) -> None:
    """A gated pod is not tried and not reported as unschedulable, and is bound once its gates are removed."""

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


async def test_the_most_important_goes_first(both: Both) -> None:
    """Waiting pods are tried by priority, whatever the order in which they came."""

    async def observe(side: Side) -> Any:
        async with stage(side) as it:
            await it.node("a", 100)
            for name, level in (("low", 1000), ("none", 0), ("high", 2000)):
                spec: dict[str, Any] = {"priorityClassName": await it.priority(level)} if level else {}
                await it.pod(name, **spec)
            async with it.scheduler():
                for name in await it.pods():
                    await it.bound(name)
            return [call.message["Pod"]["metadata"]["name"] for call in it.extender.of("filter")]

    assert await both.same(observe) == ["high", "low", "none"]
