"""Several extenders, scores, many nodes, and what the in-tree filters leave to an extender."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any

import pytest

from e2e.parity.parity_requests import MEMORY, Object
from e2e.parity.recording_extender import Answer, Call, RecordingExtender, let_through, names_of, refuse
from e2e.parity.scheduler_under_test import BACKOFF, entry, play, stage
from e2e.parity.sides import Both, Side

OTHER = "example.com/other"


@pytest.mark.promise("G2-04")
async def test_extenders_in_order_the_ignorable_last(both: Both) -> None:
    """Extenders are asked in order about the nodes left, ignorable ones last, and one of these may fail."""

    async def observe(side: Side) -> Any:
        order: list[Any] = []
        async with stage(side) as it, AsyncExitStack() as stack:
            for name in ("a", "b", "c"):
                await it.node(name)
            made: list[Object] = []
            for index, ignorable in enumerate((True, False, False)):

                async def respond(call: Call, index: int = index) -> Answer:
                    order.append([index, sorted(names_of(call))])
                    dropped = {1: "a", 2: "b"}.get(index, "")
                    if index == 0:
                        return Answer(status=500)
                    return refuse(call, f"refused by {index}", keep=tuple(n for n in names_of(call) if n != dropped))

                extender = await stack.enter_async_context(RecordingExtender(respond))
                made.append(entry(extender, ignorable=ignorable, managedResources=None))
            async with side.scheduler({**BACKOFF, "extenders": made}):
                await it.pod("p1")
                bound = await it.bound("p1")
                # A real scheduler may have to try a binding again, for its own reasons: each attempt is the same.
                first = order[:3]
                assert order == first * (len(order) // 3)
                return [bound, first]

    seen = await both.same(observe)
    assert seen == ["c", [[1, ["a", "b", "c"]], [2, ["b", "c"]], [0, ["c"]]]]


@pytest.mark.promise("G2-13")
async def test_what_other_pods_and_volumes_demand(both: Both) -> None:
    """The embedded scheduler ignores a demand on other pods for which the real one refuses a node."""

    async def observe(side: Side) -> Any:
        async with play(side, {"a": 10}) as it:
            term = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "kubernetes.io/hostname"}
            apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
            await it.pod("first", metadata={"labels": {"app": "x"}}, affinity=apart)
            await it.bound("first")
            await it.pod("second", metadata={"labels": {"app": "x"}}, affinity=apart)
            await it.settle()
            return (await it.pods())["second"]

    assert await both.differs("scheduler-other-pods", observe) == ("a", "")


async def scored(side: Side, scores: Mapping[str, Mapping[str, Any]], weights: Mapping[str, int]) -> str:
    """The node on which a pod lands, of three, when extenders give these scores; None is an answer of 500."""
    async with stage(side) as it, AsyncExitStack() as stack:
        for name in ("a", "b", "c"):
            await it.node(name)
        made = []
        for name, weight in weights.items():

            async def respond(call: Call, name: str = name) -> Answer:
                if call.verb == "filter":
                    return let_through(call)
                given = scores[name]
                return Answer([{"Host": host, "Score": score} for host, score in given.items()], 200 if given else 500)

            extender = await stack.enter_async_context(RecordingExtender(respond))
            made.append(entry(extender, prioritizeVerb="prioritize", weight=weight, managedResources=None))
        async with side.scheduler({**BACKOFF, "extenders": made}):
            await it.pod("p1")
            return await it.bound("p1")


@pytest.mark.promise("G2-08")
@pytest.mark.parametrize(
    ("scores", "weights", "expected"),
    [
        ({"x": {"a": 3, "b": 4, "c": 5}}, {"x": 1}, "c"),
        ({"x": {"a": 10}, "y": {"b": 4}}, {"x": 1, "y": 3}, "b"),
        # Not clamped; unknown hosts and missing ones do not matter; an extender that fails does not count.
        ({"x": {"b": 50}, "y": {"a": 10, "c": 10}}, {"x": 1, "y": 4}, "b"),
        ({"x": {}, "y": {"a": 1}}, {"x": 100, "y": 1}, "a"),
        ({"x": {"a": 1.5}, "y": {"b": 1}}, {"x": 100, "y": 1}, "b"),
    ],
)
async def test_scores_are_weighted_and_added(
    both: Both, scores: Mapping[str, Mapping[str, Any]], weights: Mapping[str, int], expected: str
) -> None:
    """The node with the highest sum of score times weight over all extenders wins."""
    assert await both.same(lambda side: scored(side, scores, weights)) == expected


@pytest.mark.promise("G2-08")
async def test_extender_competes_with_the_schedulers_spreading(both: Both) -> None:
    """A small score loses against a much emptier node, and a large score wins."""

    async def observe(side: Side) -> Any:
        async with play(side, {"busy": 10, "empty": 10}, prioritizeVerb="prioritize", weight=1) as it:
            await it.pod("load", resources={"requests": {"cpu": "6", "memory": "24Gi"}}, nodeName="busy")
            seen = []
            for score in (1, 10):
                it.extender.on(prioritize=Answer([{"Host": "busy", "Score": score}, {"Host": "empty", "Score": 0}]))
                await it.pod(f"p{score}")
                seen.append(await it.bound(f"p{score}"))
            return seen

    assert await both.same(observe) == ["empty", "busy"]


@pytest.mark.promise("EXT-034", "G2-03")
@pytest.mark.parametrize(
    ("count", "percentage", "expected"), [(2, None, 2), (120, None, 100), (250, None, 120), (150, 100, 150)]
)
async def test_how_many_nodes_an_extender_sees(both: Both, count: int, percentage: int | None, expected: int) -> None:
    """An extender sees all of up to a hundred nodes, else a share of at least a hundred, and others the next time."""

    async def observe(side: Side) -> Any:
        configuration = {"percentageOfNodesToScore": percentage} if percentage else {}
        async with stage(side) as it:
            for start in range(0, count, 25):
                numbers = range(start, min(start + 25, count))
                await asyncio.gather(*(it.node(f"node-{number}") for number in numbers))
            async with it.scheduler(configuration):
                seen: set[str] = set()
                counts = []
                for name in ("p1", "p2", "p3"):
                    await it.pod(name)
                    await it.bound(name)
                for call in it.extender.of("filter"):
                    counts.append(len(names_of(call)))
                    seen |= set(names_of(call))
                return [counts, len(seen) > min(expected, count - 1)]

    counts, moves_on = await both.same(observe)
    assert counts == [expected] * 3
    assert moves_on


@pytest.mark.parametrize("ignored", [True, False])
async def test_resources_that_are_left_to_the_extender(both: Both, ignored: bool) -> None:
    """A node without enough reaches the extender only if the scheduler ignores the resource."""

    async def observe(side: Side) -> Any:
        managed = [{"name": MEMORY, "ignoredByScheduler": ignored}]
        async with play(side, {"big": 10, "small": 1, "none": None}, managedResources=managed) as it:
            await it.pod("p1", 5)
            await it.bound("p1")
            return [sorted(names_of(call)) for call in it.extender.of("filter")]

    assert await both.same(observe) == ([["big", "none", "small"]] if ignored else [["big"]])


_PLAIN = {"urlPrefix": "http://127.0.0.1:1", "filterVerb": "f"}


@pytest.mark.promise("EXT-038")
@pytest.mark.parametrize(
    ("extenders", "good"),
    [
        ([_PLAIN], True),
        ([{**_PLAIN, "httpTimeout": "1m30s"}], True),
        ([{**_PLAIN, "httpTimeout": "30"}], False),
        ([{**_PLAIN, "prioritizeVerb": "p"}], False),
        ([{**_PLAIN, "bindVerb": "b"}, {**_PLAIN, "bindVerb": "b"}], False),
        ([{**_PLAIN, "filterverb": "f"}], False),
        ([{**_PLAIN, "enableHttps": True}], False),
        ([{**_PLAIN, "managedResources": [{"name": "cpu"}]}], False),
        ([{**_PLAIN, "managedResources": [{"name": OTHER}, {"name": OTHER}]}], False),
    ],
)
async def test_which_configurations_are_refused(both: Both, extenders: list[Object], good: bool) -> None:
    """A scheduler refuses wrong keys, casing, weights, second binders and names of resources at its start."""

    async def observe(side: Side) -> Any:
        try:
            async with side.scheduler({"extenders": extenders}):
                return True
        except Exception:  # each side has its own way to refuse to start
            return False

    assert await both.same(observe) is good
