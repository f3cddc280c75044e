"""Promises of clusters.embedded.apiserver.api_eviction: budgets allow an eviction, or refuse it."""

from __future__ import annotations

from typing import Any

import pytest

from clusters.embedded.apiserver.api_eviction import counted
from clusters.embedded.apiserver.refusals import RefusalError

NOW = "2026-01-02T03:04:05Z"
READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


def pod(**status: Any) -> dict[str, Any]:
    """A ready pod, unless ``ready`` is false."""
    return {"metadata": {"name": "p", "labels": {"app": "a"}}, "spec": {}, "status": {**READY, **status}}


def budget(allowed: int = 0, *, generation: int = 1, app: str = "a", **spec: Any) -> dict[str, Any]:
    """A budget that one of one pod keeps."""
    status = {"disruptionsAllowed": allowed, "observedGeneration": 1, "desiredHealthy": 1, "currentHealthy": 1}
    metadata = {"name": "b", "generation": generation}
    return {"metadata": metadata, "spec": {"selector": {"matchLabels": {"app": app}}, **spec}, "status": status}


def test_a_budget_with_room_has_less_of_it_afterwards() -> None:
    """An eviction lowers the budget's allowance by one and records the pod in the budget's status."""
    changed = counted(pod(), [budget(2)], NOW)
    assert changed is not None
    assert (changed["status"]["disruptionsAllowed"], changed["status"]["disruptedPods"]) == (1, {"p": NOW})


@pytest.mark.parametrize(
    ("found", "cause"),
    [
        (budget(0), "The disruption budget b needs 1 healthy pods and has 1 currently"),
        (budget(1, generation=2), "The disruption budget b is still being processed by the server."),
    ],
)
def test_a_budget_without_room_refuses(found: dict[str, Any], cause: str) -> None:
    """429, with the cause that kubectl drain shows."""
    with pytest.raises(RefusalError) as refused:
        counted(pod(), [found], NOW)
    assert refused.value.code == 429
    assert refused.value.details == {"causes": [{"reason": "DisruptionBudget", "message": cause}]}


def test_two_budgets_for_one_pod_are_an_error() -> None:
    """500."""
    with pytest.raises(RefusalError, match="more than one PodDisruptionBudget"):
        counted(pod(), [budget(1), budget(1)], NOW)


@pytest.mark.parametrize(
    ("item", "budgets"),
    [
        (pod(phase="Succeeded"), [budget(0)]),
        (pod(phase="Pending"), [budget(0)]),
        (pod(), [budget(0, app="other")]),
        (pod(), []),
        (pod(conditions=[]), [budget(0)]),
        (pod(conditions=[]), [budget(0, unhealthyPodEvictionPolicy="AlwaysAllow")]),
    ],
)
def test_pods_that_no_budget_counts(item: dict[str, Any], budgets: list[dict[str, Any]]) -> None:
    """Ended and pending ones, those of no budget, and those that are not ready if enough others are."""
    assert counted(item, budgets, NOW) is None
