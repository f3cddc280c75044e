"""Promises of clusters.embedded.controllers.node_taints; e2e/parity compares them with the real controller."""

from __future__ import annotations

from typing import Any

import pytest

from clusters.embedded.controllers.actions import Patch
from clusters.embedded.controllers.node_taints import tainted

NOW = "2026-01-01T00:00:00Z"
NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
OTHER = {"key": "example.com/mine", "effect": "NoSchedule"}


def node(*taints: dict[str, str], unschedulable: bool = False, **conditions: str) -> dict[str, Any]:
    return {
        "metadata": {"name": "n", "resourceVersion": "7"},
        "spec": {"taints": list(taints), "unschedulable": unschedulable},
        "status": {"conditions": [{"type": key, "status": value} for key, value in conditions.items()]},
    }


def written(item: dict[str, Any]) -> list[dict[str, Any]] | None:
    """The taints that are written, or None if nothing is."""
    actions = tainted([item], NOW)
    if not actions:
        return None
    (action,) = actions
    assert isinstance(action, Patch)
    assert action.patch["metadata"] == {"resourceVersion": "7"}
    taints: list[dict[str, Any]] = action.patch["spec"]["taints"]
    return taints


def test_a_ready_node_loses_the_taint_and_nothing_else() -> None:
    """Taints of others stay, in their order."""
    assert written(node(OTHER, NOT_READY, Ready="True")) == [OTHER]


@pytest.mark.parametrize(
    ("conditions", "name"),
    [
        ({"Ready": "False"}, "not-ready"),
        ({"Ready": "Unknown"}, "unreachable"),
        ({"PIDPressure": "True"}, "pid-pressure"),
    ],
)
def test_what_is_wrong_is_added_with_the_time(conditions: dict[str, Any], name: str) -> None:
    """Once."""
    added = {"key": f"node.kubernetes.io/{name}", "effect": "NoSchedule", "timeAdded": NOW}

    assert written(node(OTHER, **conditions)) == [OTHER, added]
    assert written(node(OTHER, added, **conditions)) is None


def test_the_same_key_with_another_effect_is_another_taint() -> None:
    """An operator's NoExecute stays."""
    theirs = {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}

    assert written(node(theirs, Ready="True")) is None
