"""Promises of clusters.api.node_operations; on clusters they are in e2e/scenarios."""

from __future__ import annotations

from typing import Any

import pytest

from clusters.api.node_operations import is_evictable


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({}, True),
        ({"ownerReferences": [{"kind": "ReplicaSet"}]}, True),
        ({"ownerReferences": [{"kind": "DaemonSet"}]}, False),
        ({"annotations": {"kubernetes.io/config.mirror": "x"}}, False),
        ({"labels": {"stands-for-the-pod-of": "gpushare-device-plugin"}}, False),
        ({"annotations": {"other": "x"}}, True),
    ],
    ids=["bare", "of a ReplicaSet", "of a DaemonSet", "static", "of a program that runs as a process", "annotated"],
)
def test_a_drain_takes_all_but_daemons_and_static_pods(metadata: dict[str, Any], expected: bool) -> None:
    """A DaemonSet would put its pod back immediately, and a static pod is the kubelet's own."""
    assert is_evictable({"metadata": metadata}) is expected
