"""Promises of e2e.onsite about nodes, limits, and the pods that are created."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.onsite.site_nodes import discovered, is_simulated, why_closed
from e2e.site.picture import Picture


def node(
    name: str = "n",
    labels: dict[str, str] | None = None,
    *,
    ready: str = "True",
    runtime: str = "",
    limit: str = "5",
    **spec: Any,
) -> dict[str, Any]:
    """A node that takes pods, unless something about it is changed."""
    status = {
        "conditions": [{"type": "Ready", "status": ready}],
        "allocatable": {"pods": limit},
        "capacity": {"aliyun.com/gpu-mem": "14"},
        "nodeInfo": {"containerRuntimeVersion": runtime or "containerd://2.1"},
    }
    return {"metadata": {"name": name, "labels": labels or {"gpushare": "true"}}, "spec": spec, "status": status}


def pods(count: int) -> list[dict[str, Any]]:
    """Pods that run on the node."""
    return [{"metadata": {"name": "p"}, "spec": {"nodeName": "n"}, "status": {"phase": "Running"}}] * count


def plugin(where: str = "n", component: str = "gpushare-device-plugin", **changes: Any) -> dict[str, Any]:
    """A device plugin's pod, with these changes to its container."""
    container = {"name": "gpushare", "image": "gpushare/device-plugin:1.2", "command": ["gpushare-device-plugin"]}
    return {
        "metadata": {"name": "p", "labels": {"component": component}},
        "spec": {"nodeName": where, "containers": [{**container, **changes}]},
    }


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
        (node(limit="1k"), 2, ""),
    ],
)
def test_a_node_that_takes_no_pods_is_named(changed: dict[str, Any], there: int, why: str) -> None:
    """A pod is created only on a node where it does not wait in vain, because others might be evicted for it."""
    assert why_closed(changed, pods(there), 4) == why


def test_only_labelled_or_named_nodes_are_validated() -> None:
    """One without the label is validated if it is named, one that is cordoned leaves gaps, and an unknown name is an error."""
    picture = Picture([node("a"), node("b", {"gpushare": "no"}), node("c", unschedulable=True)], ())

    assert discovered(picture, []) == ["a", "c"]
    assert discovered(picture, ["b"]) == ["b"]
    with pytest.raises(ValueError, match="x: no node of that name shares cards"):
        discovered(picture, ["x"])


@pytest.mark.parametrize(
    ("labels", "capacity", "selector", "lacking"),
    [
        ({"x": "y"}, {}, None, {}),
        ({"x": "y"}, {"aliyun.com/gpu-mem": "14"}, None, {"n": "gpushare=true"}),
        ({"x": "y"}, {"nvidia.com/gpu": "1"}, None, {"n": "gpushare=true"}),
        ({"nvidia.com/gpu.present": "true"}, {}, None, {"n": "gpushare=true"}),
        ({"nvidia.com/gpu.present": "false"}, {}, None, {}),
        ({"feature.node.kubernetes.io/pci-0302_10de.present": "true"}, {}, None, {"n": "gpushare=true"}),
        ({"pool": "cards"}, {"nvidia.com/gpu": "1"}, {"pool": "cards"}, {}),
        ({"gpushare": "true"}, {"nvidia.com/gpu": "1"}, {"pool": "cards"}, {"n": "pool=cards"}),
        ({"gpushare": "true"}, {"nvidia.com/gpu": "1"}, {"kubernetes.io/os": "linux", "gpushare": "true"}, {}),
    ],
)
def test_a_node_with_cards_and_no_label_is_named(
    labels: dict[str, str], capacity: dict[str, str], selector: dict[str, str] | None, lacking: dict[str, str]
) -> None:
    """With the label that it lacks: the one by which a device plugin that is there is placed, or the original's."""
    one, placed = node(labels=labels), plugin("other")
    one["status"]["capacity"] = capacity
    placed["spec"]["nodeSelector"] = selector

    assert Picture([one], [placed]).left_out == lacking


@pytest.mark.parametrize(
    ("changed", "pod", "expected"),
    [
        (node(), plugin(), False),
        (node(runtime="simulated://1"), plugin(), True),
        (node(labels={"clusters.gpushare/device-plugin": "x"}), plugin(), True),
        (node(), plugin(env=[{"name": "FAKENVML_STATE", "value": "/state"}]), True),
        (node(), plugin("other", command=["gpushare-device-plugin-simulated"]), False),
        (node(), plugin(component="theirs", command=["card-simulated"]), False),
    ],
)
def test_simulated_cards_are_recognised(changed: dict[str, Any], pod: dict[str, Any], expected: bool) -> None:
    """A node's runtime, its labels, or the device plugin on it show that its cards are simulated; other nodes do not count."""
    assert is_simulated(changed, [pod]) is expected
