"""The machine that a node claims to be, as data."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from clusters.file_names import file_name


@dataclass(frozen=True, slots=True)
class Timings:
    """All in seconds; the defaults are a real kubelet's unless a comment names another source."""

    dial: float = 10.0
    """How long Register waits for the plugin's own socket to answer."""
    pre_start: float = 30.0
    """The time that a plugin has for one PreStartContainer."""
    endpoint_grace: float = 300.0
    """From the end of a ListAndWatch stream until the resource's capacity becomes 0 too."""
    heartbeat: float = 10.0
    """Between two renewals of the node's lease, and between two looks at its status."""
    report: float = 300.0
    """The longest time without a report of the node's status, where nothing changes."""
    node_sync: float = 0.05
    """From a change of devices to the node's new status; a real kubelet takes up to 10 s."""
    pod_sync: float = 0.01
    """From a change of a container to the pod's new status, so that containers that start together are one write."""
    start_retry: float = 0.6
    """Before a container that could not be started is tried again the first time (measured); doubles each time."""
    start_retry_longest: float = 15.0
    """The most that it doubles to."""
    admission_shuffle: float = 0.0
    """A real kubelet admits pods in the order in which they were bound (measured), so 0. Above, pods that are bound within
    so many seconds, one after the other, and ask for the same are admitted in any order: a device plugin has to bear that."""
    restart: float = 10.0
    """Before the second restart of a container (the first is immediate); doubles each time."""
    restart_longest: float = 300.0
    """The most that it doubles to; a container that ran twice as long starts over with the back-off."""

    def at_speed(self, factor: float) -> Self:
        """The same kubelet in a cluster with a clock that runs this many times as fast: its heartbeats scale, too."""
        return replace(self.scaled(1 / factor), heartbeat=self.heartbeat / factor, report=self.report / factor)

    def scaled(self, factor: float) -> Self:
        """The same kubelet with its waits multiplied by ``factor``; limits on others (dial, pre_start) stay."""
        return replace(
            self,
            endpoint_grace=self.endpoint_grace * factor,
            start_retry=self.start_retry * factor,
            start_retry_longest=self.start_retry_longest * factor,
            restart=self.restart * factor,
            restart_longest=self.restart_longest * factor,
        )


@dataclass(frozen=True, slots=True)
class Machine:
    """The node: its name and what it has, amounts as Kubernetes writes them."""

    name: str
    cpu: str = "8"
    memory: str = "32Gi"
    pods: str = "110"
    ephemeral_storage: str = "100Gi"
    labels: Mapping[str, str] = field(default_factory=dict)
    address: str = "127.0.0.1"
    version: str = "v1.36.3"
    """The kubelet's version that the node shows: plugins decide by it."""

    @property
    def minor(self) -> int:
        """36 of ``v1.36.3``."""
        return int(self.version.split(".")[1])

    @property
    def resources(self) -> dict[str, str]:
        """Capacity without devices."""
        return {
            "cpu": self.cpu,
            "memory": self.memory,
            "pods": self.pods,
            "ephemeral-storage": self.ephemeral_storage,
        }

    def information(self, boot: int) -> dict[str, str]:
        """``status.nodeInfo``: the version is the machine's, the rest shows that nothing runs here."""
        return {
            "machineID": self.name,
            "systemUUID": self.name,
            "bootID": f"{self.name}-{boot}",
            **dict.fromkeys(("kernelVersion", "osImage"), "simulated"),
            "containerRuntimeVersion": "simulated://1",
            **dict.fromkeys(("kubeletVersion", "kubeProxyVersion"), self.version),
            "operatingSystem": "linux",
            "architecture": "amd64",
        }

    @property
    def pod_addresses(self) -> list[str]:
        """The addresses that its pods get, one after the other: of a network chosen by its name, which is not routed."""
        network = zlib.crc32(self.name.encode()) % 256
        return [f"10.244.{network}.{host}" for host in range(1, 255)]

    @property
    def plain_labels(self) -> dict[str, str]:
        """Those that every node has: a kubelet puts them right on a node that is there; ``labels`` it gives to a new one only."""
        return {
            "beta.kubernetes.io/arch": "amd64",
            "beta.kubernetes.io/os": "linux",
            # A label's value ends at 63 characters, a node's name at 253: of a longer one the host has another name.
            "kubernetes.io/hostname": file_name(self.name, 63),
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
        }
