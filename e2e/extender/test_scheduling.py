"""Pods that an extender has refused, or could not be asked about, with a scheduler."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Final

import pytest
import yaml

from clusters.api.waiting import eventually
from e2e import spec
from e2e.builders import gpu_pod
from e2e.extender import schedulers
from e2e.extender.extender_under_test import ExtenderUnderTest, Object
from e2e.observer import Observer
from e2e.promises import ROOT

pytestmark = pytest.mark.stand_in_only("no kubelet has a part in it")

# A scheduler that may look at the least shows a hundred of this number; two looks are not enough.
FLEET: Final = 250
# More than any card of the cluster's own nodes has.
LARGE: Final = 18


async def fleet(stage: ExtenderUnderTest) -> str:
    """Nodes with twenty units each, of which only the last has them on one card; its name."""
    names = [f"{stage.namespace}-{number:03}" for number in range(FLEET)]
    labels = {"fleet": stage.namespace}
    await asyncio.gather(*(stage.node(name, 20, 4, labels=labels) for name in names[:-1]))
    await stage.node(names[-1], 20, 1, labels=labels)
    return names[-1]


def pod_for(stage: ExtenderUnderTest, name: str) -> Object:
    """One that only the last node of the fleet holds, though each has enough in sum."""
    pod = stage.pod(name, LARGE, scheduler=schedulers.NAME)
    pod["spec"]["nodeSelector"] = {"fleet": stage.namespace}
    return pod


@pytest.mark.promise("EXT-034")
@pytest.mark.parametrize("percentage", [100, pytest.param(1, marks=pytest.mark.needs("call"))])
async def test_pod_reaches_the_one_node_that_holds_it(stage: ExtenderUnderTest, percentage: int) -> None:
    """A scheduler that looks at all nodes, as our configuration advises, binds it there at the first attempt.

    One that shows a hundred nodes at a time is made to look again at those without the card.
    """
    last = await fleet(stage)
    async with stage.scheduler(stage.configuration(percentage=percentage)):
        # Which hundred comes first is chance; of several pods some are refused.
        for name in ("p0", "p1", "p2", "p3"):
            await stage.create(pod_for(stage, name))
            assert await stage.bound_to(name) == last
            assert percentage < 100 or await stage.observer.events(name, "FailedScheduling") == []
            await stage.observer.delete(name, 0)
            await stage.used(last, 0)


@pytest.mark.promise("D13", "EXT-035")
async def test_a_pod_that_was_refused_comes_when_a_node_changes(stage: ExtenderUnderTest, name: str) -> None:
    """Twenty units on two cards hold no pod of fifteen; on one they do. (When a pod has gone: E2E-003.)"""
    await stage.node(name, 20, 2)
    await stage.create(stage.pod("p", 15, scheduler="default-scheduler", node=name))
    await stage.observer.waits_because("p", "")
    await stage.resize(name, 20, 1)

    assert await stage.bound_to("p") == name
    await stage.used(name, 15)


@pytest.mark.needs("call")
@pytest.mark.promise("EXT-035")
async def test_pods_are_called_when_a_card_is_declared_well(stage: ExtenderUnderTest, name: str) -> None:
    """A card that is declared healthy wakes no pod on its own, so the extender calls those that wait for it."""
    await stage.node(name, 20, 1)
    async with contextlib.AsyncExitStack() as entered, stage.banned(name, "0"):
        other = stage.pod("other", LARGE)
        await eventually(
            lambda: stage.fits(other, name), lambda nodes: not nodes, "the extender knows that the card is unhealthy"
        )
        # The pod's scheduler does not exist: nothing asks but this case. No other node has such a card.
        (pod,) = await stage.create(stage.pod("p", LARGE))
        assert await stage.fits(pod, name) == []
        await entered.enter_async_context(stage.calling(name))

    assert await stage.fits(pod, name) == [name]


@pytest.mark.needs("device_plugin")
@pytest.mark.promise("EXT-036", "EXT-037")
async def test_without_an_extender_no_pod_is_bound_then_all_are(observer: Observer) -> None:
    """SchedulerError and no node, as it is not ignorable; with the extender back the pod runs without help."""
    await observer.cluster.kill("extender")
    try:
        await observer.create(gpu_pod("p", 3, node="a1"))
        conditions = await eventually(
            lambda: _conditions(observer, "p"), lambda seen: "SchedulerError" in seen, "the scheduler has an error"
        )
        assert conditions == ["SchedulerError"]
        assert "nodeName" not in (await observer.pod("p"))["spec"]
    finally:
        await observer.cluster.launch("extender")
    await observer.running("p", seconds=120)
    await observer.check_all("p")


@pytest.mark.needs("manifests")
@pytest.mark.promise("EXT-029", "EXT-037")
@pytest.mark.parametrize(
    "path", sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("clusters/deploy/**/scheduler-config.yaml"))
)
@pytest.mark.promise("D25")
def test_our_configurations_call_every_verb_and_do_without_none(path: str) -> None:
    """Defect D25: ignorable would bind without a card; prioritize has a weight, and preempt is asked."""
    (extender,) = yaml.safe_load((ROOT / path).read_text())["extenders"]

    assert extender["ignorable"] is False
    assert [extender[f"{verb}Verb"] for verb in ("filter", "prioritize", "preempt", "bind")] == [
        "filter", "prioritize", "preempt", "bind",
    ]  # fmt: skip
    assert extender["weight"] >= 1
    assert extender["managedResources"] == [{"name": spec.RESOURCE_MEMORY, "ignoredByScheduler": False}]


async def _conditions(observer: Observer, name: str) -> list[str]:
    conditions: list[dict[str, Any]] = (await observer.pod(name))["status"].get("conditions") or []
    return [str(one["reason"]) for one in conditions if one["type"] == "PodScheduled"]
