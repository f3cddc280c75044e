"""Drivers that are replaced, or refuse a limit; a node that must limit and cannot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pytest

from clusters.provider import DEVICE_PLUGIN
from e2e import spec
from e2e.builders import gpu_pod
from e2e.limits.conftest import FULL, NEW, OLD, PLAIN, SET, LimitedCluster, Situation, on, process_pod

_LATER: Final = "620"
SITUATIONS: Final[Mapping[str, Situation]] = {
    "upgrade": Situation(PLAIN, driver=OLD, facts={"reason": "DriverTooOld"}),
    "downgrade": Situation((process_pod(),), driver=_LATER),
    "refused": Situation(PLAIN, commands=(("fail", SET, "--with", "NOT_SUPPORTED"),)),
    "required": Situation(PLAIN, options={"memory-limit": "require"}, needs="cards-annotation"),
}


async def change_driver(limited: LimitedCluster, name: str, driver: str, *, needs_restart: bool = True) -> None:
    """The node has another driver, and containers run on; the plugin starts again if ``needs_restart``."""
    cluster = limited.observer.cluster
    if needs_restart:
        await cluster.kill(DEVICE_PLUGIN, name)
    await cluster.fake_nvml(name, "init", "--box", limited.situations[name].box, "--seed", name, "--driver", driver)
    if needs_restart:
        await cluster.launch(DEVICE_PLUGIN, name)


@pytest.mark.promise("LIM-002", "LIM-004")
@pytest.mark.parametrize("name", ["upgrade"])
async def test_a_newer_driver_limits_the_pods_that_come(limited: LimitedCluster, name: str) -> None:
    """After an upgrade new containers are limited; those of before are reported."""
    await limited.running(name, "p", "q")
    await limited.is_right(name)
    await change_driver(limited, name, _LATER)
    await limited.run(name, gpu_pod("r", 5))

    await limited.is_right(name, reason="", set={("p", "c0"): None, ("q", "c0"): None})


@pytest.mark.promise("LIM-002", "LIM-004")
@pytest.mark.parametrize(("name", "reason"), [("downgrade", "DriverTooOld"), ("refused", "HookFails")])
async def test_a_hook_that_fails_is_noticed(limited: LimitedCluster, name: str, reason: str) -> None:
    """A container does not start (if the driver is older than its limit, or refuses it), and new pods run without limits.

    A hook that fails under one driver may work under the next.
    """
    if reason == "DriverTooOld":
        await limited.is_right(name)
        await change_driver(limited, name, OLD)
        await limited.end_process(name)
    assert "apply-cuda-memory-limits" in await limited.observer.event_text(f"p.{name}", spec.EVENT_LIMIT_FAILS)
    await limited.run(name, gpu_pod("r", 5))

    await limited.is_right(name, reason=reason)

    if reason == "HookFails" and limited.follows_drivers:
        await change_driver(limited, name, _LATER, needs_restart=False)
        await limited.is_right(name, reason="", set={("r", "c0"): None})


@pytest.mark.thorough("two drivers are replaced")
@pytest.mark.promise("LIM-005")
@pytest.mark.parametrize("name", ["required"])
async def test_a_node_that_must_limit_and_cannot_offers_nothing(limited: LimitedCluster, name: str) -> None:
    """Its cards have no room for another pod until there is a driver that limits; pods of before keep their units."""
    await limited.running(name, "p", "q")
    await limited.is_right(name)
    await change_driver(limited, name, OLD)
    await limited.observer.shows(name, "7")
    await limited.observer.create(on(gpu_pod("r", 5), name))
    await limited.observer.waits_because(f"r.{name}", "")
    await limited.is_right(name, reason="DriverTooOld", set={("p", "c0"): None, ("q", "c0"): None})

    await change_driver(limited, name, NEW)
    await limited.observer.shows(name, str(FULL))
    await limited.running(name, "r")
    await limited.is_right(name, set={("p", "c0"): None, ("q", "c0"): None})
