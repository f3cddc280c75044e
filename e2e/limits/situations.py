"""The situations in which limits are judged: a node, what happens to its cards first, and its pods. Data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from clusters.provider import LimitSpec, NodeSpec
from e2e import spec
from e2e.builders import gpu_container, gpu_pod
from e2e.bursts.world import LIMITED

# A card of 15 units with this driver, which limits.
NEW, OLD = "615", "580"
FULL: Final = 15
_SET: Final = "nvmlDeviceSetMemoryLimits_v1"
_BOXES: Final = Path(__file__).parents[1] / "boxes"
_RAISED: Final = 15_000
_VARIABLE: Final = "NVIDIA_GPU_MEMORY_LIMIT"


@dataclass(frozen=True, slots=True)
class Situation:
    """``commands`` to fake-nvml come before the ``pods``. ``facts`` are further fields of ``LimitedNode``."""

    pods: tuple[dict[str, Any], ...] = ()
    box: str = "t4x1"
    driver: str = NEW
    limits: LimitSpec = field(default_factory=LimitSpec)
    options: Mapping[str, str] = field(default_factory=dict)
    commands: tuple[tuple[str, ...], ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    needs: str = "memory-limit"

    def node(self, name: str, known: Mapping[str, Any]) -> NodeSpec:
        """The node, with a plugin that limits; ``known`` are the options that the target can spell."""
        hastens = {
            "usage-interval": "1s",
            "survey-interval": "1s",
            "metrics-address": "127.0.0.1:0",
            "proc-root": "{proc_root}",
        }
        options = {**LIMITED, **self.options}
        options |= {option: value for option, value in hastens.items() if option in known}
        box = str(_BOXES / f"{self.box}.yaml") if (_BOXES / f"{self.box}.yaml").is_file() else self.box
        return NodeSpec(name, box, self.driver, plugin_options=options, memory_limits=self.limits)


def shaped(name: str) -> dict[str, Any]:
    """A pod of two containers, a sidecar, and an init container that runs long enough to be seen."""
    pod = gpu_pod(name, 1, 2)
    sidecar = {**gpu_container("sidecar", 4), "restartPolicy": "Always"}
    pod["spec"]["initContainers"] = [gpu_container("init", 6, {"EXITS_AFTER": 3}), sidecar]
    return pod


def by(name: str, units: int, **changes: Any) -> dict[str, Any]:
    """A pod with these fields of its container changed."""
    pod = gpu_pod(name, units)
    pod["spec"]["containers"][0].update(changes)
    return pod


def raisers() -> tuple[dict[str, Any], ...]:
    """Pods that name another limit: the image, and the author (as envFrom does, which the stand-in kubelet does not read)."""
    return (
        by("image", 2, image="simulated/limit-raiser"),
        by("author", 3, env=[{"name": _VARIABLE, "value": str(_RAISED)}]),
    )


_SLOT: Final = {"limits": {spec.RESOURCE_MEMORY: "5001", spec.RESOURCE_SLOT: "1"}}
PLAIN: Final = (gpu_pod("p", 3), gpu_pod("q", 4))


def _unable(reason: str, limits: LimitSpec = LimitSpec(), driver: str = NEW, **facts: Any) -> Situation:  # noqa: B008 - frozen
    return Situation(PLAIN, limits=limits, driver=driver, facts={"reason": reason, **facts})


def _none(**more: Any) -> Situation:
    """The driver has no limit, though the plugin answers one."""
    return Situation(PLAIN, facts={"set": {("p", "c0"): None, ("q", "c0"): None}}, **more)


# By a device of the CDI, which runs the program on the node.
DEVICE: Final = {"memory-limit-hook": "/usr/bin/nvidia-cdi-hook", "cdi-root": "{cdi_root}"}
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
                       facts={"set": {("author", "c0"): _RAISED}}),
    "unequal": Situation((_UNEQUAL,), box="t4x2", needs="wishes"),
    "device": Situation((*raisers(), _UNEQUAL), box="t4x2", options=DEVICE, facts=_EXACT, needs="limit-device"),
    "device-alone": Situation(raisers(), limits=LimitSpec(hook=False), options=DEVICE, facts=_EXACT, needs="limit-device"),
    "no-hook": _none(limits=LimitSpec(hook=False)),
    "keeps-nothing": _none(commands=(("fail", _SET, "--with", "SUCCESS"),)),
    "slow": Situation(PLAIN, commands=(("slow", _SET, "--seconds", "2"),)),
    "mig": Situation(PLAIN, box="a100x2", commands=(("set", "1", "mig", "on"),)),
    "old-driver": _unable("DriverTooOld", driver="610"),
    "much-older-driver": _unable("DriverTooOld", driver=OLD),
    # There a limit can be neither set nor read.
    "cgroup-v1": _unable("CgroupV1", LimitSpec(cgroup="v1"), lost=(0,)),
    "old-kernel": _unable("KernelTooOld", LimitSpec(backend="none")),
    "switched-off": _unable("SwitchedOff", LimitSpec(switched_off=True)),
}  # fmt: skip
