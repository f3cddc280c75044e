"""Promises of clusters.embedded.scheduling.preemption."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.api.api_client import Object
from clusters.embedded.scheduling.cluster_view import NodeInfo, node_info, on_node
from clusters.embedded.scheduling.fit import NODE_RESOURCES_FIT, Rejection, demand_of
from clusters.embedded.scheduling.preemption import (
    NEVER,
    NO_VICTIMS,
    TERMINATING,
    Victims,
    best_of,
    dry_run,
    victims_on,
    why_not_eligible,
)
from tests.clusters.embedded.scheduling.scheduling_objects import MEMORY, make_node, make_pod

FULL = Rejection(NODE_RESOURCES_FIT, ("Insufficient aliyun.com/gpu-mem",), resolvable=True)
EVICTED = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}


def pod(name: str, units: int, priority: int = 0, *, start: str = "", labels: dict[str, str] | None = None) -> Object:
    made = make_pod(name, {MEMORY: str(units)}, priority=priority, nodeName="n1")
    made["metadata"]["labels"] = labels or {}
    if start:
        made["status"]["startTime"] = start
    return made


def node_with(*pods: Object, units: int = 10, name: str = "n1") -> NodeInfo:
    info = node_info(make_node(name, {MEMORY: str(units)}))
    for each in pods:
        info.add(on_node(each, name))
    return info


def victims(info: NodeInfo, units: int, *budgets: Object, priority: int = 10) -> Victims | Rejection:
    return victims_on(demand_of(pod("high", units, priority)), info, list(budgets), [])


def names(found: Victims | Rejection) -> list[str]:
    assert isinstance(found, Victims)
    return [each["metadata"]["name"] for each in found.pods]


def budget(allowed: int, **status: Any) -> Object:
    return {
        "metadata": {"namespace": "default", "name": "budget"},
        "spec": {"selector": {"matchLabels": {"app": "a"}}},
        "status": {"disruptionsAllowed": allowed, **status},
    }


def test_the_more_important_victim_is_spared_first() -> None:
    """If one of two victims may be spared, it is the more important one."""
    assert ["low"] == names(victims(node_with(pod("low", 4, 1), pod("middle", 6, 2)), 4))


def test_of_equals_the_longest_running_stays() -> None:
    """A pod that has not started is evicted before any that has."""
    old, young, new = (
        pod("old", 4, start="2026-01-01T00:00:00Z"),
        pod("young", 4, start="2026-01-02T00:00:00Z"),
        pod("new", 4),
    )

    assert ["young", "new"] == names(victims(node_with(new, young, old, units=12), 8))


def test_a_node_without_lower_pods_has_no_victims() -> None:
    """A pod of equal priority is never evicted."""
    found = victims(node_with(pod("equal", 8, 10)), 4)

    assert isinstance(found, Rejection)
    assert (NO_VICTIMS,) == found.reasons


def test_a_node_that_is_too_small_even_when_empty_says_why() -> None:
    """The reason comes from the filter that refuses even the empty node."""
    found = victims(node_with(pod("equal", 8, 10), pod("low", 2)), 4)

    assert isinstance(found, Rejection)
    assert (f"Insufficient {MEMORY}",) == found.reasons


def test_a_budget_protects_as_long_as_there_are_others() -> None:
    """The protected pod is put back before an unprotected one that is more important."""
    info = node_with(pod("protected", 5, 1, labels={"app": "a"}), pod("other", 5, 5))

    assert ["other"] == names(victims(info, 5, budget(0)))


@pytest.mark.parametrize(
    ("given_budget", "violations"),
    [
        (budget(0), 2),
        (budget(1), 1),
        (budget(2), 0),
        (budget(0, disruptedPods={"one": "now", "two": "now"}), 0),
        ({**budget(0), "metadata": {"namespace": "other"}}, 0),
    ],
)
def test_violations_are_counted(given_budget: Object, violations: int) -> None:
    """Budgets count by namespace, by selector, and without pods that are being disrupted already."""
    info = node_with(pod("one", 5, labels={"app": "a"}), pod("two", 5, labels={"app": "a"}))
    found = victims(info, 10, given_budget)

    assert isinstance(found, Victims)
    assert violations == found.violations


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 12)), max_size=6), st.integers(1, 12))
def test_node_holds_the_pod_with_its_victims_gone_and_no_fewer(pods: list[tuple[int, int]], units: int) -> None:
    """Enough pods are evicted, none of equal priority, and none that could stay."""
    there = [pod(f"p{number}", size, priority) for number, (size, priority) in enumerate(pods)]
    total = sum(size for size, _ in pods)
    found = victims(node_with(*there, units=max(total, 1)), units)
    if isinstance(found, Rejection):
        lower = sum(size for size, priority in pods if priority < 10)
        assert not lower or max(total, 1) - total + lower < units
        return
    gone = {
        each["metadata"]["name"]: int(each["spec"]["containers"][0]["resources"]["limits"][MEMORY])
        for each in found.pods
    }
    free = max(total, 1) - total + sum(gone.values())
    assert free >= units
    assert all(free - size < units for size in gone.values())
    assert all(each["spec"]["priority"] < 10 for each in found.pods)


def test_dry_run_tells_candidates_refusals_and_errors_apart() -> None:
    """If the pod would fit without eviction there is no victim, and that is an error."""
    nodes = [
        node_with(pod("low", 8), name="cured"),
        node_with(pod("equal", 8, 10), name="hopeless"),
        node_with(pod("small", 1), name="free"),
    ]
    found = dry_run(demand_of(pod("high", 4, 10)), nodes, [], lambda name: [])

    assert ["cured"] == list(found.candidates)
    assert {"hopeless", "free"} == set(found.rejections)
    assert ['expected at least one victim pod on node "free"'] == found.errors


def test_dry_run_ends_when_there_are_enough_candidates() -> None:
    """A hundred nodes are enough."""
    nodes = [node_with(pod(f"low-{number}", 8), name=f"n{number}") for number in range(150)]
    found = dry_run(demand_of(pod("high", 4, 10)), nodes, [], lambda name: [])

    assert len(found.candidates) == 100


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Victims((pod("a", 1, 9),), 0), Victims((pod("b", 1, 0),), 1)),
        (Victims((pod("a", 1, 1), pod("b", 1, 1)), 0), Victims((pod("c", 1, 2),), 0)),
        (Victims((pod("a", 1, 2), pod("b", 1, 0)), 0), Victims((pod("c", 1, 2), pod("d", 1, 1)), 0)),
        (Victims((pod("a", 1, -5),), 0), Victims((pod("b", 1, -5), pod("c", 1, -5)), 0)),
        (
            Victims((pod("a", 1, start="2026-01-02T00:00:00Z"),), 0),
            Victims((pod("b", 1, start="2026-01-01T00:00:00Z"),), 0),
        ),
    ],
    ids=["violations", "highest", "sum", "number", "latest start"],
)
def test_best_of_is_the_least_loss(one: Victims, other: Victims) -> None:
    """Each rule counts if those before it do not decide."""
    assert [best_of({"one": one, "other": other}), best_of({"other": other, "one": one})] == ["one", "one"]


def leaving(priority: int = 0) -> NodeInfo:
    gone = pod("gone", 8, priority)
    gone["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    gone["status"]["conditions"] = [EVICTED]
    return node_with(gone)


NOMINATED = {**pod("high", 8, 10), "status": {"nominatedNodeName": "n1"}}


@pytest.mark.parametrize(
    ("waiting", "info", "rejection", "reason"),
    [
        (make_pod(preemptionPolicy="Never"), None, None, NEVER),
        (make_pod(), None, None, ""),
        (NOMINATED, leaving(), FULL, TERMINATING),
        (NOMINATED, leaving(priority=10), FULL, ""),
        (NOMINATED, node_with(pod("there", 8)), FULL, ""),
        (NOMINATED, leaving(), Rejection("", (), resolvable=False), ""),
        (NOMINATED, None, FULL, ""),
    ],
)
def test_why_not_eligible(waiting: Object, info: NodeInfo | None, rejection: Rejection | None, reason: str) -> None:
    """A pod that was promised a node waits while the victims go, unless that node is out for good."""
    assert reason == why_not_eligible(waiting, info, rejection)
