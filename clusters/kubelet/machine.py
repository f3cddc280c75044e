"""The machine that a node claims to be, as data."""

from __future__ import annotations

import ipaddress
import itertools
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

# Of a large pod network only the first addresses are used.
_MOST_ADDRESSES: Final = 65_536


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
    pod_network: str = ""
    """Where the addresses of its pods come from (nobody routes them); by default a /24 chosen by the name."""
    version: str = "v1.36.3"
    """The kubelet's version that the node shows: plugins decide by it."""

    @property
    def resources(self) -> dict[str, str]:
        """Capacity but for devices."""
        return {
            "cpu": self.cpu,
            "memory": self.memory,
            "pods": self.pods,
            "ephemeral-storage": self.ephemeral_storage,
        }

    @property
    def pod_addresses(self) -> list[str]:
        """The addresses that its pods get, one after the other."""
        network = self.pod_network or f"10.244.{zlib.crc32(self.name.encode()) % 256}.0/24"
        return [str(address) for address in itertools.islice(ipaddress.ip_network(network).hosts(), _MOST_ADDRESSES)]

    @property
    def all_labels(self) -> dict[str, str]:
        """The labels that every node has, and this one's own."""
        return {
            "kubernetes.io/hostname": self.name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            **self.labels,
        }


def node_info(machine: Machine) -> dict[str, str]:
    """``status.nodeInfo``: the version is the machine's, the rest says that nothing runs here."""
    return {
        "machineID": machine.name,
        "systemUUID": machine.name,
        "bootID": machine.name,
        "kernelVersion": "simulated",
        "osImage": "simulated",
        "containerRuntimeVersion": "simulated://1",
        "kubeletVersion": machine.version,
        "kubeProxyVersion": machine.version,
        "operatingSystem": "linux",
        "architecture": "amd64",
    }
