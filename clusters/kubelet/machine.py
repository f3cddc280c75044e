"""The machine that a node claims to be, as data."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from clusters.file_names import file_name


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
