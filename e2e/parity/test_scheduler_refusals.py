"""The condition and the event of a pod that no node takes, word for word."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.parity.parity_objects import MEMORY
from e2e.parity.recording_extender import Answer
from e2e.parity.scheduler_under_test import play, stage
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
