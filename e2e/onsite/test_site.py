"""Promises of e2e.onsite.site about nodes and limits."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.onsite.site import Permissions
from e2e.onsite.site_nodes import discovered, why_closed
from e2e.site.picture import Picture
from e2e.site.test_invariants import NOW


def node(name: str = "n", *, label: str = "true", ready: str = "True", **spec: Any) -> dict[str, Any]:
    """A node that takes pods, unless something about it is changed."""
    status = {
        "conditions": [{"type": "Ready", "status": ready}],
        "allocatable": {"pods": "5"},
        "capacity": {"aliyun.com/gpu-mem": "14"},
    }
    return {"metadata": {"name": name, "labels": {"gpushare": label}}, "spec": spec, "status": status}


def pods(count: int) -> list[dict[str, Any]]:
    """Pods that run on the node."""
    return [{"metadata": {"name": "p"}, "spec": {"nodeName": "n"}, "status": {"phase": "Running"}}] * count


@pytest.mark.parametrize(
    ("changed", "there", "why"),
    [
        (node(), 1, ""),
        (node(ready="Unknown"), 1, "is not ready"),
        (node(unschedulable=True), 1, "is cordoned"),
        (node(taints=[{"key": "team", "effect": "NoSchedule"}]), 1, "has a taint that keeps pods away: team"),
        (node(taints=[{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]), 1, ""),
        (node(taints=[{"key": "team", "effect": "PreferNoSchedule"}]), 1, ""),
        (node(), 2, "has 2 pods and takes 5"),
    ],
)
def test_a_node_that_takes_no_pods_is_named(changed: dict[str, Any], there: int, why: str) -> None:
    """A pod is created only on a node where it does not wait in vain, because others might be evicted for it."""
    assert why_closed(changed, pods(there), 4) == why


def test_a_large_limit_of_pods_is_read() -> None:
    """The API server writes a limit of 1000 pods as 1k."""
    large = node()
    large["status"]["allocatable"]["pods"] = "1k"

    assert why_closed(large, pods(2), 4) == ""


def test_only_labelled_or_named_nodes_are_validated() -> None:
    """One without the label is validated if it is named, one that is cordoned leaves gaps, and an unknown name is an error."""
    picture = Picture(NOW, [node("a"), node("b", label="no"), node("c", unschedulable=True)], ())

    assert discovered(picture, []) == ["a", "c"]
    assert discovered(picture, ["b"]) == ["b"]
    with pytest.raises(ValueError, match="x: no node of that name shares cards"):
        discovered(picture, ["x"])


@pytest.mark.parametrize(("units", "mib_per_unit", "most"), [(0, 1024, 8), (0, 1, 8192), (3, 1, 3)])
def test_the_limit_is_8_gib_unless_it_is_given(units: int, mib_per_unit: int, most: int) -> None:
    """The default means the same amount of memory on each node, whatever its unit is."""
    assert Permissions(units).units_on(mib_per_unit) == most
