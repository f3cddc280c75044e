"""Each node limits its containers to their shares if it can, and reports that it cannot, or that a limit is another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pytest

from clusters.api.waiting import eventually
from clusters.provider import LimitSpec
from e2e import spec
from e2e.builders import gpu_container, gpu_pod
from e2e.checkers.memory_limits import MIB, Limit
from e2e.limits.conftest import (
    DEVICE,
    FULL,
    GUARANTEE,
    NEW,
    OLD,
    PLAIN,
    SET,
    SOURCE,
    VARIABLE,
    LimitedCluster,
    Situation,
    by,
)

_RAISED: Final = Limit(0, 15_000 * MIB)


def shaped(name: str) -> dict[str, Any]:
    """A pod of two containers, a sidecar, and an init container that runs long enough to be seen."""
    pod = gpu_pod(name, 1, 2)
    sidecar = {**gpu_container("sidecar", 4), "restartPolicy": "Always"}
    pod["spec"]["initContainers"] = [gpu_container("init", 6, {"EXITS_AFTER": 3}), sidecar]
    return pod


def raisers() -> tuple[dict[str, Any], ...]:
    """Pods that name another limit, by the image or by the author in two ways, or a guarantee."""
    return (
        by("image", 2, image="simulated/limit-raiser"),
        by("author", 3, env=[{"name": VARIABLE, "value": "15000"}]),
        by("source", 3, envFrom=[{"configMapRef": SOURCE["metadata"]}]),
        by("guarantee", 2, envFrom=[{"secretRef": GUARANTEE["metadata"], "prefix": "NVIDIA_"}]),
    )


_SLOT: Final = {"limits": {spec.RESOURCE_MEMORY: "5001", spec.RESOURCE_SLOT: "1"}}


def _unable(reason: str, limits: LimitSpec = LimitSpec(), driver: str = NEW, **facts: Any) -> Situation:  # noqa: B008 - frozen
    return Situation(PLAIN, limits=limits, driver=driver, facts={"reason": reason, **facts})


def _none(**more: Any) -> Situation:
    """The driver has no limit, though the plugin answers one."""
    return Situation(PLAIN, facts={"set": {("p", "c0"): None, ("q", "c0"): None}}, **more)


_EXACT: Final = {"is_exact": True}
_UNEQUAL: Final = gpu_pod("p", 12, annotations={spec.WISH_SPLIT: "8,4"})
SITUATIONS: Final[Mapping[str, Situation]] = {
    "several": Situation((shaped("p"), gpu_pod("q", 2)), box="t4x2"),
    "counted-by-driver": Situation(PLAIN, limits=LimitSpec(backend="misc", keeps_dead=True)),
    "slack": Situation((gpu_pod("full", FULL), gpu_pod("part", 5)), box="t4x2", options={"memory-limit-slack": "10%"},
                       facts={"slack": "10%"}),
    "small-unit": Situation(PLAIN, options={"memory-unit": "256MiB"}, facts={"mib_per_unit": 256}),
    "slots": Situation((by("p", 1, resources=_SLOT),), options={"mode": "slots"}, facts={"mib_per_unit": 1}, needs="slots"),
    "containerd": Situation(raisers(), facts={"set": {("image", "c0"): _RAISED}}),
    "cri-o": Situation(raisers(), limits=LimitSpec(order="cri-o"),
                       facts={"set": {("author", "c0"): _RAISED, ("source", "c0"): _RAISED,
                                      ("guarantee", "c0"): Limit(1024 * MIB, 2048 * MIB)}}),
    "unequal": Situation((_UNEQUAL,), box="t4x2", needs="wishes"),
    "device": Situation((*raisers(), _UNEQUAL), box="t4x2", options=DEVICE, facts=_EXACT, needs="limit-device"),
    "device-alone": Situation(raisers(), limits=LimitSpec(hook=False), options=DEVICE, facts=_EXACT, needs="limit-device"),
    "no-hook": _none(limits=LimitSpec(hook=False)),
    "keeps-nothing": _none(commands=(("fail", SET, "--with", "SUCCESS"),)),
    "slow": Situation(PLAIN, commands=(("slow", SET, "--seconds", "2"),)),
    "mig": Situation(PLAIN, box="a100x2", commands=(("set", "1", "mig", "on"),)),
    "old-driver": _unable("DriverTooOld", driver="610"),
    "much-older-driver": _unable("DriverTooOld", driver=OLD),
    # There a limit can be neither set nor read.
    "cgroup-v1": _unable("CgroupV1", LimitSpec(cgroup="v1"), lost=(0,)),
    "old-kernel": _unable("KernelTooOld", LimitSpec(backend="none")),
    "switched-off": _unable("SwitchedOff", LimitSpec(switched_off=True)),
}  # fmt: skip


@pytest.mark.promise("LIM-001", "LIM-002", "LIM-003")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.needs(one.needs)) for name, one in SITUATIONS.items()]
)
async def test_limits_are_exact_or_reported(limited: LimitedCluster, name: str) -> None:
    """All pods run; the driver has the exact share of each container as its limit, or node, pod and events report it."""
    await limited.running(name, *(pod["metadata"]["name"] for pod in limited.situations[name].pods))

    await eventually(lambda: limited.wrong(name), lambda found: not found, f"the limits of {name} are right")
