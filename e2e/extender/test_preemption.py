"""A pod of higher priority gets a card: the pods whose end frees one go, and no others."""

from __future__ import annotations

import pytest

from clusters.api.waiting import eventually
from e2e import spec
from e2e.builders import gpu_pod
from e2e.extender import schedulers
from e2e.extender.extender_under_test import ExtenderUnderTest, Object
from e2e.observer import Observer

pytestmark = pytest.mark.needs("device_plugin", "preempt")

# On two cards of 14: by sums the cheapest are b and d, on two cards; by cards they are c and d. Values of their priorities.
POPULATION = {"a": (8, 4), "b": (6, 2), "c": (8, 3), "d": (6, 1)}


async def populate(stage: ExtenderUnderTest) -> dict[str, Object]:
    """Fill a2: a and b on the one card, c and d on the other; the pods."""
    for value in (1, 2, 3, 4, 1000):
        await stage.priority(_name(stage, value), value)
    found = {}
    for name, (units, value) in POPULATION.items():
        (found[name],) = await stage.observer.run(_of(stage, gpu_pod(name, units, node="a2"), value))
    await stage.catch_up()
    cards = {name: pod["metadata"]["annotations"][spec.POD_INDEX] for name, pod in found.items()}
    assert cards["a"] == cards["b"] != cards["c"] == cards["d"]
    return found


@pytest.mark.promise("EXT-028")
async def test_the_victims_free_one_card(stage: ExtenderUnderTest, observer: Observer) -> None:
    """The scheduler asks which ends make room; those of one card go, the others run on, and the pod is on that card.

    (A node on which no end helps is dropped: the rules of ``run_judge.py``, for questions of test_random_states.py and of bursts.)
    """
    before = await populate(stage)
    (important,) = await observer.run(_of(stage, gpu_pod("important", 12, node="a2"), 1000), seconds=120)
    # A victim with ended containers holds no card any more, though its object may still exist.
    await _left(observer, {"a", "b", "important"})
    left = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in await observer.pods()}

    assert all(left[name] == before[name]["metadata"]["uid"] for name in ("a", "b"))
    freed = before["c"]["metadata"]["annotations"][spec.POD_INDEX]
    assert important["metadata"]["annotations"][spec.POD_INDEX] == freed
    await observer.check_all("a", "b", "important")


@pytest.mark.promise("EXT-029")
async def test_without_the_verb_pods_end_for_nothing(stage: ExtenderUnderTest, observer: Observer) -> None:
    """A scheduler that does not ask takes the cheapest by their sum, one of each card, and the pod still waits."""
    before = await populate(stage)
    without = stage.configuration(preemptVerb=None)
    async with stage.scheduler(without):
        await observer.create(_of(stage, stage.pod("important", 12, scheduler=schedulers.NAME, node="a2"), 1000))
        await _left(observer, {"a", "c", "important"})
        await observer.waits_because("important", "")

    assert {before[name]["metadata"]["uid"] for name in "ac"} <= {
        pod["metadata"]["uid"] for pod in await observer.pods()
    }
    assert "nodeName" not in (await observer.pod("important"))["spec"]


async def _left(observer: Observer, names: set[str]) -> None:
    def are_left(pods: list[Object]) -> bool:
        return {pod["metadata"]["name"] for pod in pods} == names

    await eventually(observer.pods, are_left, f"{names} are left")


def _name(stage: ExtenderUnderTest, value: int) -> str:
    return f"{stage.namespace}-{value}"


def _of(stage: ExtenderUnderTest, pod: Object, value: int) -> Object:
    """The pod with that priority."""
    pod["spec"]["priorityClassName"] = _name(stage, value)
    return pod
