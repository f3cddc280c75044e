"""The victims of preemption, the extender's question about them, and the state in the API."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from e2e.parity.parity_requests import MEMORY, Object, made, place
from e2e.parity.recording_extender import Answer, names_of, refuse
from e2e.parity.scheduler_under_test import SchedulerUnderTest, play, stage
from e2e.parity.sides import Both, Side


@asynccontextmanager
async def full(side: Side, *nodes: str, **fields: Any) -> AsyncIterator[SchedulerUnderTest]:
    """Nodes of 10 units, each with a pod ``low-<node>`` of 6 on it that is less important than a ``high`` one."""
    async with stage(side) as it:
        low = await it.priority(100)
        for node in nodes:
            await it.node(node, 10)
            await it.pod(f"low-{node}", 6, nodeName=node, priorityClassName=low)
        async with it.scheduler(**fields):
            yield it


async def preempt(it: SchedulerUnderTest, name: str = "high", units: int = 8, **spec: Any) -> str:
    """A pod that is more important; its uid."""
    return await it.pod(name, units, priorityClassName=await it.priority(1000), **spec)


def keep(victims: Object) -> Answer:
    """The preempt verb's answer that agrees with everything; ``victims`` is NodeNameToMetaVictims."""
    return Answer({"NodeNameToMetaVictims": victims})


@pytest.mark.promise("G2-12")
async def test_victims_go_and_the_pod_comes(both: Both) -> None:
    """A victim gets a condition, an event and its deletion, and the pod is nominated for its node, then bound."""

    async def observe(side: Side) -> Any:
        async with full(side, "a") as it:
            # The victim stays for a while, as one with a grace period does, so that its conditions can be read.
            await it.change_pod("low-a", {"metadata": {"finalizers": ["example.com/wait"]}})
            uid = await preempt(it)
            condition = await it.condition("high", text=" ")
            target = await it.condition("low-a", kind="DisruptionTarget", status="True")
            preempted = await it.event("low-a", "Preempted")
            assert uid in preempted["message"]
            nominated = (await it.get_pod("high"))["status"].get("nominatedNodeName")
            failed = await it.event("high", "FailedScheduling")
            await it.change_pod("low-a", {"metadata": {"finalizers": None}})
            node = await it.bound("high")
            return [condition, target, preempted, failed, nominated, node, await it.pods()]

    seen = await both.same(observe)
    assert seen[4:] == ["a", "a", {"high": "a"}]


@pytest.mark.promise("EXT-029", "G2-12")
async def test_the_extender_is_not_asked_by_the_dry_run(both: Both) -> None:
    """An extender without preemptVerb is asked only when there is room, and about the nominated node alone."""

    async def observe(side: Side) -> Any:
        async with full(side, "a", "b") as it:
            await it.pod("block-b", 2, nodeName="b", priorityClassName=await it.priority(2000))
            await it.settle()
            await preempt(it, units=9)
            await it.bound("high")
            return [[call.verb, names_of(call)] for call in it.extender.calls], await it.pods()

    seen = await both.same(observe)
    assert seen[0] == [["filter", ["a"]]]


@pytest.mark.promise("EXT-001", "G2-12")
async def test_what_the_preempt_verb_is_asked_with_a_node_cache(both: Both) -> None:
    """The preempt call has uids of each candidate's victims, budgets broken, and Go's spelling of keys."""

    async def observe(side: Side) -> Any:
        async with full(side, "a", "b", preemptVerb="preempt") as it:
            it.extender.on(preempt=lambda call: keep({"b": call.message["NodeNameToMetaVictims"]["b"]}))
            await preempt(it)
            node = await it.bound("high")
            (call,) = it.extender.of("preempt")
            asked = call.message
            uids = {name: (await it.get_pod(name))["metadata"]["uid"] for name in ("low-a",)}
            victims = asked["NodeNameToMetaVictims"]
            return [
                list(asked),
                sorted(asked["Pod"]["spec"]),
                asked["NodeNameToVictims"],
                victims,
                victims["a"]["Pods"][0]["UID"] == uids["low-a"],
                node,
                await it.pods(),
            ]

    seen = await both.same(observe)
    assert seen[5:] == ["b", {"low-a": "a", "high": "b"}]


def victims(node: str, *uids: str) -> Answer:
    """The preempt verb's answer that names these victims on one node."""
    return keep({node: {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": 0}})


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (keep({}), "no candidate node for preemption"),
        (victims("a", "nobody"), "nobody"),
        (victims("a"), "expected at least one victim"),
        (Answer(status=500), "code 500"),
    ],
    ids=["no node", "no such victim", "no victims", "failure"],
)
async def test_an_answer_to_preempt_that_evicts_no_pod(both: Both, answer: Answer, text: str) -> None:
    """An answer without usable victims ends the preemption with its reason, and the pod stays Unschedulable."""

    async def observe(side: Side) -> Any:
        async with full(side, "a", preemptVerb="preempt") as it:
            it.extender.on(preempt=answer)
            await preempt(it)
            condition = await it.condition("high", text=" ")
            await it.settle()
            pods = {name: node for name, node in (await it.pods()).items() if not name.startswith("marker")}
            nominated = (await it.get_pod("high"))["status"].get("nominatedNodeName")
            return [condition["reason"], condition["message"].replace(it.extender.url, "URL"), pods, nominated]

    seen = await both.same(observe)
    assert text in seen[1]
    assert (seen[0], seen[2]) == ("Unschedulable", {"low-a": "a", "high": ""})


async def test_the_least_important_go(both: Both) -> None:
    """Preemption takes the fewest and least important victims, and reprieves the most important first."""

    async def observe(side: Side) -> Any:
        async with stage(side) as it:
            low, middle = await it.priority(100), await it.priority(200)
            await it.node("a", 10)
            await it.node("b", 10)
            for name, node, units, level in (
                ("a-1", "a", 4, low),
                ("a-2", "a", 2, low),
                ("a-3", "a", 4, middle),
                ("b-1", "b", 4, middle),
                ("b-2", "b", 6, middle),
            ):
                await it.pod(name, units, nodeName=node, priorityClassName=level)
            async with it.scheduler():
                await preempt(it, units=4)
                return [await it.bound("high"), await it.pods()]

    seen = await both.same(observe)
    assert seen == ["a", {"a-2": "a", "a-3": "a", "b-1": "b", "b-2": "b", "high": "a"}]


async def test_a_disruption_budget_protects(both: Both) -> None:
    """A pod of a budget stays if another can go, else the extender reads how many budgets break."""

    async def observe(side: Side) -> Any:
        async with stage(side) as it:
            spec = {"minAvailable": 5, "selector": {"matchLabels": {"app": "kept"}}}
            budgets = place(side, "poddisruptionbudgets", root="/apis/policy/v1")
            await made(side, budgets, {"metadata": {"name": "keep"}, "spec": spec})
            await it.node("a", 10)
            kept, other = await it.priority(100), await it.priority(200)
            await it.pod("kept", 5, nodeName="a", priorityClassName=kept, metadata={"labels": {"app": "kept"}})
            await it.pod("other", 5, nodeName="a", priorityClassName=other)

            it.extender.on(preempt=lambda call: keep(call.message["NodeNameToMetaVictims"]))
            async with it.scheduler(preemptVerb="preempt"):
                await preempt(it, units=5)
                await it.bound("high")
                left = await it.pods()
                await preempt(it, "higher", units=5)
                await it.bound("higher")
                asked = [call.message["NodeNameToMetaVictims"]["a"] for call in it.extender.of("preempt")]
                return [left, [each["NumPDBViolations"] for each in asked], await it.pods()]

    seen = await both.same(observe)
    assert seen == [{"kept": "a", "high": "a"}, [0, 1], {"high": "a", "higher": "a"}]


@pytest.mark.promise("G2-09")
async def test_lower_pods_yield_to_a_nominated_one(both: Both) -> None:
    """The room that preemption makes counts as taken for pods of lower priority."""

    async def observe(side: Side) -> Any:
        async with full(side, "a") as it:
            await it.change_pod("low-a", {"metadata": {"finalizers": ["example.com/wait"]}})
            await preempt(it)
            await it.condition("low-a", kind="DisruptionTarget", status="True")
            await it.pod("small", 4)
            condition = await it.condition("small", text=" ")
            # A change that could help has it tried again, while the victim still goes.
            await it.change_node("a", {"status": {"allocatable": {MEMORY: "11"}}}, status=True)
            again = await it.condition("high", text="terminating pod")
            await it.change_pod("low-a", {"metadata": {"finalizers": None}})
            await it.bound("high")
            return [condition, again, await it.pods()]

    seen = await both.same(observe)
    assert seen[2] == {"small": "", "high": "a"}


@pytest.mark.promise("EXT-013", "G2-09")
async def test_the_nominated_node_is_asked_about_alone(both: Both) -> None:
    """A nominated pod is tried on its node first, and on all nodes if that is refused."""

    async def observe(side: Side) -> Any:
        async with play(side, {"a": 10, "b": 10}) as it:
            it.extender.on(filter=lambda call: refuse(call, "no card", keep=("b",)))
            await it.pod("third", 1, schedulingGates=[{"name": "example.com/wait"}])
            await it.change_pod("third", {"status": {"nominatedNodeName": "a"}}, status=True)
            await it.change_pod("third", {"spec": {"schedulingGates": []}})
            await it.bound("third")
            return [sorted(names_of(call)) for call in it.extender.of("filter")]

    assert await both.same(observe) == [["a"], ["a", "b"]]
