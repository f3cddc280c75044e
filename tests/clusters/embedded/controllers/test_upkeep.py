"""Promises of clusters.embedded.controllers.upkeep; e2e/parity compares the taints with those of the real controller."""

from __future__ import annotations

from typing import Any

import pytest

from clusters.embedded.controllers.actions import Patch
from clusters.embedded.controllers.upkeep import counted, furnished, tainted

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


def named(name: str, namespace: str = "", **more: Any) -> dict[str, Any]:
    """An object."""
    return {"metadata": {"name": name, "namespace": namespace}, **more}


def test_a_furnished_namespace_is_left_alone() -> None:
    """A namespace that has everything is left alone, and a namespace that is leaving gets nothing."""
    going = {"metadata": {"name": "b", "deletionTimestamp": "now"}}
    published = named("kube-root-ca.crt", "a", data={"ca.crt": "PEM"})
    assert furnished([named("a"), going], [named("default", "a")], [published], "PEM") == []


def test_a_certificate_that_was_changed_is_put_back() -> None:
    """A certificate that differs is put back, for example that of a former cluster with the same state."""
    changed = named("kube-root-ca.crt", "a", data={"ca.crt": "other"})
    (action,) = furnished([named("a")], [named("default", "a")], [changed], "PEM")
    assert isinstance(action, Patch)
    assert action.patch == {"data": {"ca.crt": "PEM"}}


def a_quota(**status: Any) -> dict[str, Any]:
    """A quota of two pods."""
    return {"metadata": {"name": "q", "namespace": "a"}, "spec": {"hard": {"pods": "2"}}, "status": status}


def a_pod(namespace: str) -> dict[str, Any]:
    """A pod."""
    return {"metadata": {"name": "p", "namespace": namespace}, "spec": {"containers": []}}


def test_a_status_that_is_not_right_is_written() -> None:
    """The status counts the pods, and names that have left the limits are removed from it."""
    (action,) = counted([a_quota(hard={"pods": "1", "cpu": "1"}, used={})], [a_pod("a"), a_pod("b")])
    assert isinstance(action, Patch)
    assert action.patch == {"status": {"hard": {"cpu": None, "pods": "2"}, "used": {"pods": "1"}}}


def test_a_status_that_is_right_is_left_alone() -> None:
    """A status that is right is not written, because each write would cause another."""
    assert counted([a_quota(hard={"pods": "2"}, used={"pods": "0"})], []) == []
