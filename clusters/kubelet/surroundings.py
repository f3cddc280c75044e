"""The objects that all pods of a node share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from clusters.kubelet.device_manager import DeviceManager
from clusters.kubelet.runtime import Runtime
from clusters.kubelet.timings import Timings


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The objects that all pods of a node share."""

    runtime: Runtime
    devices: DeviceManager
    timings: Timings
    clock: Callable[[], float]
    host_ip: str
    new_pod_ip: Callable[[], str]
    shows_device_health: bool = False
    """Whether a pod's status names its devices, as from 1.36 on."""
