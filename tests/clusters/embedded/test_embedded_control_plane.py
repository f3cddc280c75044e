"""Pods that make no sense: they stop no other, and the log names wishes that are not imitated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clusters.api.api_client import ApiClient
from clusters.api.resources import NODES, PODS
from clusters.api.waiting import eventually
from clusters.embedded.embedded_control_plane import EmbeddedControlPlane
from clusters.embedded.scheduling.configuration import API_VERSION, KIND


def pod(name: str, **spec: Any) -> dict[str, Any]:
    """A pod of one container."""
    containers = [{"name": "c", "image": "i", "ports": [{"containerPort": 80, "hostPort": 80}]}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": containers, **spec}}


async def test_a_senseless_pod_stops_no_other(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The pod after one with an unknown operator is bound, and the log names its wishes that are not imitated."""
    control_plane = EmbeddedControlPlane(tmp_path)
    await control_plane.start(controllers=False)
    term = {"matchExpressions": [{"key": "a", "operator": "Near", "values": ["b"]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {"capacity": {"pods": "9"}}}
    try:
        async with ApiClient.from_kubeconfig(control_plane.kubeconfig) as api:
            await api.create(node)
            await api.patch(NODES, "n", {"spec": {"taints": None}})
            await control_plane.start_scheduler({"apiVersion": API_VERSION, "kind": KIND})
            await api.create(pod("broken", affinity=affinity))
            await api.create(pod("good"))

            async def look() -> dict[str, str]:
                return {one["metadata"]["name"]: one["spec"].get("nodeName", "") for one in await api.list(PODS)}

            await eventually(look, lambda found: found == {"broken": "", "good": "n"}, "the good pod alone is bound")
            broken = await eventually(
                lambda: api.get(PODS, "broken", "default"), lambda one: "conditions" in one["status"], "a reason"
            )
    finally:
        await control_plane.stop()
    assert "'Near'" in broken["status"]["conditions"][0]["message"]
    assert "fields=['hostPort']" in caplog.text
