"""Limits follow containers and programs that come back; a process keeps to its limit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from clusters.api.resources import PODS
from clusters.api.waiting import eventually
from clusters.provider import DEVICE_PLUGIN
from e2e.builders import gpu_pod
from e2e.limits.conftest import DEVICE, PLAIN, SET, LimitedCluster, Situation, process_pod

SITUATIONS: Final[Mapping[str, Situation]] = {
    "restarts": Situation(PLAIN),
    "reload": Situation(PLAIN),
    "again": Situation((process_pod(),)),
    "lost": Situation(PLAIN, options=DEVICE, facts={"is_exact": True}, needs="limit-device"),
    "greedy": Situation(
        (gpu_pod("greedy", 2, plays={"HOLDS_MIB": 2049}), gpu_pod("modest", 2, plays={"HOLDS_MIB": 2048}))
    ),
}


@pytest.mark.promise("LIM-004")
@pytest.mark.parametrize("name", ["restarts"])
async def test_limits_stay_through_restarts(limited: LimitedCluster, name: str) -> None:
    """A restart of the plugin, the kubelet or both changes no limit and no report."""
    names = [f"p.{name}", f"q.{name}"]
    lives = await limited.observer.lives(*names)
    await limited.is_right(name)
    for what in ("plugin", "kubelet", "both"):
        await limited.observer.restart(name, what)
        await limited.is_right(name)
    assert await limited.observer.lives(*names) == lives


@pytest.mark.promise("LIM-003", "LIM-004")
@pytest.mark.parametrize("name", ["reload"])
async def test_limits_that_a_driver_forgets_are_reported(limited: LimitedCluster, name: str) -> None:
    """A driver that is loaded again has no limits: each container that runs on is reported, and pods that come are limited."""
    await limited.running(name, "p", "q")
    await limited.is_right(name)
    await limited.observer.cluster.fake_nvml(name, "limits", "clear")
    await limited.run(name, gpu_pod("r", 5))

    await limited.is_right(name, set={("p", "c0"): None, ("q", "c0"): None})


@pytest.mark.promise("LIM-004")
@pytest.mark.needs("limit-device")
@pytest.mark.parametrize("name", ["lost"])
async def test_devices_of_limits_live_as_long_as_pods(limited: LimitedCluster, name: str) -> None:
    """Those of pods that run are there again after the folder was lost, also if the plugin was away; those of others go."""
    observer = limited.observer
    folder = observer.cluster.kubelet_folder(name) / "cdi"

    async def has(count: int) -> None:
        await eventually(lambda: _devices(folder), lambda found: len(found) == count, f"the node has {count} devices")

    await limited.running(name, "p", "q")
    await has(2)
    folder.rename(folder.with_name("lost"))
    await has(2)
    await observer.cluster.kill(DEVICE_PLUGIN, name)
    folder.rename(folder.with_name("lost-again"))
    await observer.cluster.launch(DEVICE_PLUGIN, name)
    await has(2)
    await observer.cluster.api.delete(PODS, f"q.{name}", observer.namespace)
    await has(1)
    await limited.run(name, gpu_pod("r", 5))

    await limited.is_right(name)


async def _devices(folder: Path) -> set[str]:
    files = [json.loads(path.read_bytes()) for path in folder.glob("*.json")]
    return {str(device["name"]) for file in files for device in file["devices"]}


@pytest.mark.promise("LIM-003", "LIM-004")
@pytest.mark.parametrize("name", ["again"])
async def test_each_life_of_a_container_is_verified(limited: LimitedCluster, name: str) -> None:
    """A container that was limited, and starts again without a limit, is reported."""
    await limited.running(name, "p")
    await limited.is_right(name)
    await limited.observer.cluster.fake_nvml(name, "fail", SET, "--with", "SUCCESS")
    await limited.end_process(name)

    await limited.is_right(name, set={("p", "c0"): None})


@pytest.mark.promise("LIM-006")
@pytest.mark.parametrize("name", ["greedy"])
async def test_a_process_at_its_limit_is_out_of_memory_alone(limited: LimitedCluster, name: str) -> None:
    """One MiB beyond the share is refused although the card has room; the neighbour holds its whole share and runs on."""
    observer = limited.observer
    await observer.log_with("out of memory", f"greedy.{name}", "c0")
    (modest,) = await limited.running(name, "modest")
    assert modest["status"]["containerStatuses"][0]["restartCount"] == 0
    (card,) = observer.cluster.cards(name)
    assert [one["mib"] for one in card["processes"]] == [2048]
    assert card["memory"]["total_mib"] - card["memory"]["used_mib"] > 2 * 2049
