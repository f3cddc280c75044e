"""The embedded cluster: a senseless pod stops no other, and a page lists the kinds that are served."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import clusters.embedded
from clusters.api.api_client import ApiClient
from clusters.api.resources import ALL, NODES, PODS
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


PAGE = Path(clusters.embedded.__file__).parent / "README.md"


def test_the_page_lists_exactly_the_kinds_that_are_served() -> None:
    """Each row names kinds and the API versions that have all of them."""
    rows = [line.split("|")[1:3] for line in PAGE.read_text().splitlines() if line.startswith("| ")][1:]
    listed = {
        (version.strip(), kind.strip())
        for kinds, versions in rows
        for kind in kinds.split(",")
        for version in versions.split(",")
    }

    assert listed == {(resource.api_version, resource.kind) for resource in ALL}
