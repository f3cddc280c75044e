"""Limits follow containers, programs and drivers that change; a process keeps to its limit."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from clusters.api.resources import PODS
from clusters.api.waiting import eventually
from clusters.images.behaviour import probe_container
from clusters.provider import DEVICE_PLUGIN
from e2e import spec
from e2e.builders import gpu_pod
from e2e.limits.conftest import DEVICE, FULL, NEW, OLD, PLAIN, SET, LimitedCluster, Situation, by, on

_LATER: Final = "620"
# A pod with a real process.
_PROBE: Final = by(
    "p", 3, **probe_container("c0", "python:3", "look", "--seconds", "600", limits={spec.RESOURCE_MEMORY: 3})
)
SITUATIONS: Final[Mapping[str, Situation]] = {
    "restarts": Situation(PLAIN),
    "reload": Situation(PLAIN),
    "again": Situation((_PROBE,)),
    "lost": Situation(PLAIN, options=DEVICE, facts={"is_exact": True}, needs="limit-device"),
    "upgrade": Situation(PLAIN, driver=OLD, facts={"reason": "DriverTooOld"}),
    "downgrade": Situation((_PROBE,), driver=_LATER),
    "refused": Situation(PLAIN, commands=(("fail", SET, "--with", "NOT_SUPPORTED"),)),
    "required": Situation(PLAIN, options={"memory-limit": "require"}, needs="cards-annotation"),
    "greedy": Situation(
        (gpu_pod("greedy", 2, plays={"HOLDS_MIB": 2049}), gpu_pod("modest", 2, plays={"HOLDS_MIB": 2048}))
    ),
}


async def are_right(limited: LimitedCluster, name: str, **facts: Any) -> None:
    """Wait until nothing is wrong with the limits of the node."""
    await eventually(lambda: limited.wrong(name, **facts), lambda found: not found, f"the limits of {name} are right")


async def end(limited: LimitedCluster, name: str) -> None:
    """The process of the node's pod ends; its container starts again."""
    (pod,) = await limited.running(name, "p")
    at = pod["status"]["containerStatuses"][0]["containerID"].rpartition("://")[2]
    files = limited.observer.cluster.kubelet_folder(name) / "proc"

    async def pids() -> list[int]:
        return [int(file.parent.name) for file in files.glob("*/cgroup") if at in file.read_text()]

    (pid,) = await eventually(pids, bool, f"the container of {name} has a process")
    os.kill(pid, signal.SIGKILL)


async def change_driver(limited: LimitedCluster, name: str, driver: str) -> None:
    """The node has another driver, and containers run on."""
    cluster = limited.observer.cluster
    await cluster.kill(DEVICE_PLUGIN, name)
    await cluster.fake_nvml(name, "init", "--box", limited.situations[name].box, "--seed", name, "--driver", driver)
    await cluster.launch(DEVICE_PLUGIN, name)


@pytest.mark.promise("LIM-004")
@pytest.mark.parametrize("name", ["restarts"])
async def test_limits_stay_through_restarts(limited: LimitedCluster, name: str) -> None:
    """A restart of the plugin, the kubelet or both changes no limit and no report."""
    names = [f"p.{name}", f"q.{name}"]
    lives = await limited.observer.lives(*names)
    await are_right(limited, name)
    for what in ("plugin", "kubelet", "both"):
        await limited.observer.restart(name, what)
        await are_right(limited, name)
    assert await limited.observer.lives(*names) == lives


@pytest.mark.promise("LIM-003", "LIM-004")
@pytest.mark.parametrize("name", ["reload"])
async def test_limits_that_a_driver_forgets_are_reported(limited: LimitedCluster, name: str) -> None:
    """A driver that is loaded again has no limits: each container that runs on is reported, and pods that come are limited."""
    await limited.running(name, "p", "q")
    await are_right(limited, name)
    await limited.observer.cluster.fake_nvml(name, "limits", "clear")
    await limited.run(name, gpu_pod("r", 5))

    await are_right(limited, name, set={("p", "c0"): None, ("q", "c0"): None})


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

    await are_right(limited, name)


async def _devices(folder: Path) -> set[str]:
    files = [json.loads(path.read_bytes()) for path in folder.glob("*.json")]
    return {str(device["name"]) for file in files for device in file["devices"]}


@pytest.mark.promise("LIM-003", "LIM-004")
@pytest.mark.parametrize("name", ["again"])
async def test_each_life_of_a_container_is_verified(limited: LimitedCluster, name: str) -> None:
    """A container that was limited, and starts again without a limit, is reported."""
    await limited.running(name, "p")
    await are_right(limited, name)
    await limited.observer.cluster.fake_nvml(name, "fail", SET, "--with", "SUCCESS")
    await end(limited, name)

    await are_right(limited, name, set={("p", "c0"): None})


@pytest.mark.promise("LIM-002", "LIM-004")
@pytest.mark.parametrize("name", ["upgrade"])
async def test_a_newer_driver_limits_the_pods_that_come(limited: LimitedCluster, name: str) -> None:
    """After an upgrade new containers are limited; those of before are reported."""
    await limited.running(name, "p", "q")
    await are_right(limited, name)
    await change_driver(limited, name, _LATER)
    await limited.run(name, gpu_pod("r", 5))

    await are_right(limited, name, reason="", set={("p", "c0"): None, ("q", "c0"): None})


@pytest.mark.promise("LIM-002", "LIM-004")
@pytest.mark.parametrize(("name", "reason"), [("downgrade", "DriverTooOld"), ("refused", "HookFails")])
async def test_a_hook_that_fails_is_noticed(limited: LimitedCluster, name: str, reason: str) -> None:
    """A container does not start (if the driver is older than its limit, or refuses it), and new pods run without limits."""
    if reason == "DriverTooOld":
        await are_right(limited, name)
        await change_driver(limited, name, OLD)
        await end(limited, name)
    assert "apply-cuda-memory-limits" in await limited.observer.event_text(f"p.{name}", spec.EVENT_LIMIT_FAILS)
    await limited.run(name, gpu_pod("r", 5))

    await are_right(limited, name, reason=reason)


@pytest.mark.thorough("two drivers are replaced")
@pytest.mark.promise("LIM-005")
@pytest.mark.parametrize("name", ["required"])
async def test_a_node_that_must_limit_and_cannot_offers_nothing(limited: LimitedCluster, name: str) -> None:
    """Its cards have no room for another pod until there is a driver that limits; pods of before keep their units."""
    await limited.running(name, "p", "q")
    await are_right(limited, name)
    await change_driver(limited, name, OLD)
    await limited.observer.shows(name, "7")
    await limited.observer.create(on(gpu_pod("r", 5), name))
    await limited.observer.waits_because(f"r.{name}", "")
    await are_right(limited, name, reason="DriverTooOld", set={("p", "c0"): None, ("q", "c0"): None})

    await change_driver(limited, name, NEW)
    await limited.observer.shows(name, str(FULL))
    await limited.running(name, "r")
    await are_right(limited, name, set={("p", "c0"): None, ("q", "c0"): None})


@pytest.mark.promise("LIM-006")
@pytest.mark.parametrize("name", ["greedy"])
async def test_a_process_at_its_limit_is_out_of_memory_alone(limited: LimitedCluster, name: str) -> None:
    """One MiB beyond the share is refused although the card has room; the neighbour holds its whole share and runs on."""
    observer = limited.observer
    path = PODS.path(observer.namespace, f"greedy.{name}", "log")
    await eventually(
        lambda: observer.cluster.api.text(path, {"container": "c0"}),
        lambda log: "out of memory" in log,
        "it is refused",
    )
    (modest,) = await limited.running(name, "modest")
    assert modest["status"]["containerStatuses"][0]["restartCount"] == 0
    (card,) = observer.cluster.cards(name)
    assert [one["mib"] for one in card["processes"]] == [2048]
    assert card["memory"]["total_mib"] - card["memory"]["used_mib"] > 2 * 2049
