"""Promises of clusters.embedded.controllers.disruption."""

from __future__ import annotations

from typing import Any

import pytest

from clusters.embedded.controllers.actions import Patch
from clusters.embedded.controllers.disruption import budget

OWNER = {"metadata": {"uid": "set"}, "spec": {"replicas": 4}}


def pods(ready: int, total: int, *, owned: bool = True) -> list[dict[str, Any]]:
    """Pods of one set, some of them ready."""
    return [
        {
            "metadata": {
                "name": f"p{number}",
                "namespace": "n",
                "uid": str(number),
                "labels": {"app": "a"},
                "ownerReferences": [{"uid": "set", "controller": True}] if owned else [],
            },
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": str(number < ready)}]},
        }
        for number in range(total)
    ]


@pytest.mark.parametrize(
    ("spec", "found", "allowed", "desired"),
    [
        ({"minAvailable": 1}, pods(4, 4), 3, 1),
        ({"minAvailable": "50%"}, pods(3, 4), 1, 2),
        ({"maxUnavailable": 1}, pods(4, 4), 1, 3),
        ({"maxUnavailable": 1}, pods(3, 4), 0, 3),
        ({"maxUnavailable": "30%"}, pods(4, 4), 2, 2),
        ({"minAvailable": 1}, pods(1, 1, owned=False), 0, 1),
        ({"minAvailable": 1}, [], 0, 1),
    ],
)
def test_what_may_go(spec: dict[str, Any], found: list[dict[str, Any]], allowed: int, desired: int) -> None:
    """Healthy pods beyond those that must stay; parts are rounded up."""
    item = {
        "metadata": {"name": "b", "namespace": "n", "uid": "b", "generation": 1},
        "spec": {"selector": {"matchLabels": {"app": "a"}}, **spec},
    }
    (action,) = budget(item, found, [OWNER])
    assert isinstance(action, Patch)
    status = action.patch["status"]
    assert (status["disruptionsAllowed"], status["desiredHealthy"]) == (allowed, desired)
