"""Promises of clusters.embedded.embedded_control_plane: a clock, a state that can be kept, pods that make no sense."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from clusters.api.api_client import ApiClient
from clusters.api.resources import CONFIG_MAPS, NODES, PODS
from clusters.api.waiting import eventually
from clusters.clock import Clock
from clusters.embedded.embedded_control_plane import EmbeddedControlPlane
from clusters.embedded.scheduling.configuration import API_VERSION, KIND
from clusters.provider import ClusterError

Make = Callable[..., EmbeddedControlPlane]
MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}


@pytest.fixture
async def make(tmp_path: Path) -> AsyncIterator[Make]:
    """Makes control planes that work in folders of their own, and ends them."""
    made: list[EmbeddedControlPlane] = []

    def one(clock: Clock | None = None, state: Path | None = None) -> EmbeddedControlPlane:
        folder = tmp_path / str(len(made))
        folder.mkdir()
        made.append(EmbeddedControlPlane(folder, clock, state))
        return made[-1]

    yield one
    for control_plane in made:
        await control_plane.stop()


async def test_the_next_one_goes_on(make: Make, tmp_path: Path) -> None:
    """A control plane goes on from the state that the one before has left; objects have the time of its clock."""
    clock = Clock(1e7)
    first = make(clock, tmp_path / "state")
    began = clock.now()
    await first.start(controllers=False)
    assert first.url.startswith("https://127.0.0.1:")
    async with ApiClient.from_kubeconfig(first.kubeconfig) as api:
        made = await api.create(MAP)
    await first.stop()
    second = make(state=tmp_path / "state")
    await second.start(controllers=False)
    async with ApiClient.from_kubeconfig(second.kubeconfig) as api:
        assert await api.get(CONFIG_MAPS, "c", "default") == made
    assert made["metadata"]["creationTimestamp"] > began.isoformat()


async def test_a_broken_state_is_an_error_and_stays(make: Make, tmp_path: Path) -> None:
    """A state that cannot be read is left for the user to repair."""
    state = tmp_path / "state"
    state.write_text("{broken")
    control_plane = make(state=state)
    with pytest.raises(ClusterError, match="state"):
        await control_plane.start()
    await control_plane.stop()
    assert state.read_text() == "{broken"


def pod(name: str, **spec: Any) -> dict[str, Any]:
    """A pod of one container."""
    containers = [{"name": "c", "image": "i", "ports": [{"containerPort": 80, "hostPort": 80}]}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": containers, **spec}}


async def test_a_senseless_pod_stops_no_other(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    """The pod after one with an unknown operator is bound, and the log names its wishes that are not imitated."""
    control_plane = make()
    await control_plane.start(controllers=False)
    term = {"matchExpressions": [{"key": "a", "operator": "Near", "values": ["b"]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {"capacity": {"pods": "9"}}}
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
            lambda: api.get(PODS, "broken", "default"), lambda one: "conditions" in one["status"], "a reason is given"
        )
    assert "'Near'" in broken["status"]["conditions"][0]["message"]
    assert "fields=['hostPort']" in caplog.text
