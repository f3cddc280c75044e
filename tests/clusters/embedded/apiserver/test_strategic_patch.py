"""Promises of clusters.embedded.apiserver.strategic_patch."""

from __future__ import annotations

from typing import Any

import pytest

from clusters.embedded.apiserver.strategic_patch import apply

CASES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "maps are merged": ({"a": {"b": 1}}, {"a": {"c": 2}}, {"a": {"b": 1, "c": 2}}),
    "null deletes": ({"a": {"b": 1, "c": 2}}, {"a": {"b": None}}, {"a": {"c": 2}}),
    "null of what is absent": ({}, {"a": {"b": None}}, {"a": {}}),
    "plain lists are replaced": (
        {"tolerations": [{"key": "a"}]},
        {"tolerations": [{"key": "b"}]},
        {"tolerations": [{"key": "b"}]},
    ),
    "containers by name": (
        {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]},
        {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}], "containers": [{"name": "b", "image": "2"}]},
        {"containers": [{"name": "b", "image": "2"}, {"name": "a", "image": "1"}]},
    ),
    "an order of its own": (
        {"containers": [{"name": "a"}, {"name": "b"}, {"name": "c"}]},
        {"$setElementOrder/containers": [{"name": "c"}, {"name": "a"}]},
        {"containers": [{"name": "b"}, {"name": "c"}, {"name": "a"}]},
    ),
    "what is new comes first": (
        {"containers": [{"name": "a"}, {"name": "b"}]},
        {"containers": [{"name": "c"}, {"name": "b", "image": "2"}]},
        {"containers": [{"name": "c"}, {"name": "a"}, {"name": "b", "image": "2"}]},
    ),
    "ports by number": (
        {"ports": [{"containerPort": 1, "name": "x"}]},
        {"ports": [{"containerPort": 2}]},
        {"ports": [{"containerPort": 2}, {"containerPort": 1, "name": "x"}]},
    ),
    "conditions by type": (
        {"conditions": [{"type": "Ready", "status": "False", "reason": "x"}]},
        {"conditions": [{"type": "Ready", "status": "True", "reason": None}]},
        {"conditions": [{"type": "Ready", "status": "True"}]},
    ),
    "an element is deleted": (
        {"env": [{"name": "A", "value": "1"}, {"name": "B"}]},
        {"env": [{"name": "A", "$patch": "delete"}]},
        {"env": [{"name": "B"}]},
    ),
    "an element that is not there is deleted": ({"env": []}, {"env": [{"name": "A", "$patch": "delete"}]}, {"env": []}),
    "a list is replaced": (
        {"volumes": [{"name": "a"}, {"name": "b"}]},
        {"volumes": [{"$patch": "replace"}, {"name": "c"}]},
        {"volumes": [{"name": "c"}]},
    ),
    "a map is replaced": ({"m": {"a": 1, "b": 2}}, {"m": {"$patch": "replace", "c": 3}}, {"m": {"c": 3}}),
    "a map is deleted": ({"m": {"a": 1}}, {"m": {"$patch": "delete"}}, {}),
    "finalizers are a set": ({"finalizers": ["a"]}, {"finalizers": ["a", "b"]}, {"finalizers": ["a", "b"]}),
    "a word of a set is deleted": (
        {"finalizers": ["a", "b"]},
        {"$deleteFromPrimitiveList/finalizers": ["a"]},
        {"finalizers": ["b"]},
    ),
    "keys are retained": (
        {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}},
        {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}},
        {"strategy": {"type": "Recreate"}},
    ),
    "owners by uid": (
        {"ownerReferences": [{"uid": "1", "name": "a"}]},
        {"ownerReferences": [{"uid": "1", "$patch": "delete"}]},
        {"ownerReferences": []},
    ),
    "amounts of a node": (
        {"capacity": {"cpu": "1", "aliyun.com/gpu-mem": "10"}},
        {"capacity": {"aliyun.com/gpu-count": "2"}},
        {"capacity": {"cpu": "1", "aliyun.com/gpu-mem": "10", "aliyun.com/gpu-count": "2"}},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_strategic_patch_merges(case: str) -> None:
    """A strategic patch merges as kubectl and kubelets expect, and does not change the old object."""
    old, patch, new = CASES[case]
    before = repr(old)

    assert new == apply(old, patch)
    assert before == repr(old)


def test_nonsense_is_refused() -> None:
    """An unknown directive, or an element without its key."""
    with pytest.raises(ValueError, match="unknown patch type: explode"):
        apply({}, {"$patch": "explode"})
    with pytest.raises(ValueError, match="does not contain declared merge key: name"):
        apply({"containers": [{"name": "a"}]}, {"containers": [{"image": "x"}]})
