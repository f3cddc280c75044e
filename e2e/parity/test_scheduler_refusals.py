"""The condition and the event of a pod that no node takes, word for word, and what gives it another try."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from e2e.parity.parity_requests import MEMORY, Object, made, maps
from e2e.parity.recording_extender import Answer, Call, let_through, refuse
from e2e.parity.scheduler_under_test import SchedulerUnderTest, play, stage
from e2e.parity.sides import Both, Side

REASON = "no card has enough free memory"


async def said(it: Any, name: str = "p1") -> list[Any]:
    """The condition and the event about a refusal."""
    condition = await it.condition(name, text=" ")
    event = await it.event(name, "FailedScheduling")
    status = (await it.get_pod(name))["status"]
    return [condition, event, sorted(status), [each["type"] for each in status["conditions"]]]


@pytest.mark.promise("EXT-007")
@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ({"FailedNodes": dict.fromkeys("abc", REASON)}, f"3 {REASON}"),
        (
            {
                "FailedNodes": {"a": "may be", "b": "may be"},
                "FailedAndUnresolvableNodes": {"b": "never", "c": "never"},
            },
            "1 may be, 2 never",
        ),
        ({"FailedNodes": None}, "0/3 nodes are available: "),
    ],
    ids=["reasons", "unresolvable", "without a word"],
)
async def test_an_extender_refuses_all_nodes(both: Both, answer: dict[str, Any], text: str) -> None:
    """A pod's message counts the extender's reasons, and the unresolvable one wins if a node has both."""

    async def observe(side: Side) -> Any:
        async with play(side, dict.fromkeys("abc", 10)) as it:
            it.extender.on(filter=Answer({"NodeNames": [], "Error": "", **answer}))
            await it.pod("p1")
            return await said(it)

    assert text in (await both.same(observe))[0]["message"]


@pytest.mark.promise("G2-02")
async def test_in_tree_refusals(both: Both) -> None:
    """The scheduler refuses each unfit node with its own reason, and then asks no extender."""

    async def observe(side: Side) -> Any:
        async with stage(side) as it:
            await it.node("cordoned", unschedulable=True)
            await it.node("tainted", taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}])
            await it.node("other", labels={"zone": "x"})
            await it.node("small", 1)
            await it.node("bare", None)
            await it.node("full", allocatable={"pods": "0"})
            await it.node("busy", allocatable={"cpu": "1"})
            term = {"matchExpressions": [{"key": "zone", "operator": "DoesNotExist"}]}
            required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
            async with it.scheduler():
                await it.pod(
                    "p1",
                    resources={"limits": {MEMORY: "2"}, "requests": {"cpu": "2"}},
                    affinity={"nodeAffinity": required},
                )
                return [await said(it), it.extender.verbs()]

    seen = await both.same(observe)
    assert seen[1] == []


async def test_an_error_of_the_filter(both: Both) -> None:
    """An error of the filter is a SchedulerError with the extender's text, and the pod is tried until it ends."""

    async def observe(side: Side) -> Any:
        async with play(side, {"a": 10}) as it:
            it.extender.on(filter=Answer({"NodeNames": ["a"], "Error": "cache is not ready"}))
            await it.pod("p1")
            seen = await said(it)
            await it.calls("filter", 2)
            it.extender.on()
            await it.bound("p1")
            return seen

    assert (await both.same(observe))[0]["reason"] == "SchedulerError"


@pytest.mark.promise("G2-05")
async def test_answers_that_are_none(both: Both) -> None:
    """An answer of another status than 200 (its body is not read), that is no JSON, or has wrong types or nodes, is an error."""
    ignored = {"NodeNames": ["a"], "Error": "not read"}
    answers = {
        **{f"code {status}": Answer(ignored if status != 204 else b"", status) for status in (201, 204, 404, 500)},
        "empty": Answer(b""),
        "text": Answer(b"not JSON"),
        "cut": Answer(b'{"NodeNames": ["a"'),
        "number": Answer(b"7"),
        "wrong": Answer(b'{"NodeNames": "a"}'),
        "map": Answer(b'{"NodeNames": [], "FailedNodes": ["a"]}'),
        "unknown": Answer(b'{"NodeNames": ["somebody-else"]}'),
    }

    async def observe(side: Side) -> Any:
        async with play(side, {"a": 10}) as it:
            seen = {}
            for name, answer in answers.items():
                it.extender.on(filter=answer)
                pod = name.replace(" ", "-")
                await it.pod(pod)
                condition = await it.condition(pod)
                # The text of a decoding error differs from program to program.
                text = condition["message"].replace(it.extender.url, "URL") if name.startswith("code") else ""
                seen[name] = [condition["reason"], text]
                await it.delete_pod(pod)
            return seen

    seen = await both.same(observe)
    assert {reason for reason, _ in seen.values()} == {"SchedulerError"}
    assert seen["code 201"][1] == "failed filter with extender at URL URL/filter, code 201"


@pytest.mark.promise("EXT-008", "G2-05")
async def test_what_is_decoded_all_the_same(both: Both) -> None:
    """A filter answer is read with any casing of keys, unknown or repeated keys, nulls, and text after it."""
    bodies = {
        "lower": b'{"nodenames": ["a"], "failednodes": null, "error": ""}',
        "upper": b'{"NODENAMES": ["a"]}',
        "more": b'{"NodeNames": ["a"], "Extra": {"x": 1}} trailing',
        "null": b'{"NodeNames": ["a"], "FailedNodes": null, "Error": null, "Nodes": null}',
        "nodes": b'{"Nodes": {"items": [{"metadata": {"name": "a"}}]}}',
        "twice": b'{"NodeNames": ["b"], "nodeNames": ["a"]}',
    }

    async def observe(side: Side) -> Any:
        async with play(side, {"a": 100, "b": 100}) as it:
            seen = {}
            for name, body in bodies.items():
                it.extender.on(filter=Answer(body))
                await it.pod(name)
                seen[name] = await it.bound(name)
            return seen

    assert set((await both.same(observe)).values()) == {"a"}


Trigger = Callable[[SchedulerUnderTest], Awaitable[object]]


def refusing(call: Call) -> Answer:
    """The answer of an extender that refuses one pod and no other."""
    is_waiting = call.message["Pod"]["metadata"]["name"] == "waiting"
    return refuse(call, "not now") if is_waiting else let_through(call)


async def tries(it: SchedulerUnderTest) -> int:
    """How often the extender was asked about the pod, once the scheduler has come to rest."""
    await it.settle()
    return sum(call.message["Pod"]["metadata"]["name"] == "waiting" for call in it.extender.of("filter"))


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
    await made(it.side, maps(it.side), {"metadata": {"name": "unhealthy-gpu-a"}})


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
