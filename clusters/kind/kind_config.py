"""kind's configuration of a cluster: its nodes, the host's folders in them, the scheduler's configuration. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from clusters.kind.program_images.card_mount import FOLDER as CARDS
from clusters.kind.program_images.card_mount import SPECIFICATION

# The beginning of the names of clusters that are ours.
PREFIX: Final = "gpushare-"
# Where a kubelet keeps the logs of its pods.
LOGS: Final = "/var/log/pods"
# Folders of a worker that lie on the host: there, its folder in the container.
NODE_FOLDERS: Final[Mapping[str, str]] = {
    "device-plugins": "/var/lib/kubelet/device-plugins",
    "pod-resources": "/var/lib/kubelet/pod-resources",
    "nvml": CARDS,
    "logs": LOGS,
}
# Where a node finds what this run hands in (images), for reading.
HANDED_IN: Final = "/gpushare"
# Where the documentation puts the scheduler's configuration, and the patch expects it.
SCHEDULER_CONFIG: Final = "/etc/kubernetes/scheduler-gpushare-config.yaml"

# A kubelet reports a change of its devices with its next status, by default ten seconds later; nothing else of it is hastened here.
_KUBELET: Final = {
    "kind": "KubeletConfiguration",
    "nodeStatusUpdateFrequency": "1s",
    # Where only the other is set, this becomes the same, and every node would write its status every second.
    "nodeStatusReportFrequency": "5m",
    # At this verbosity it logs which device plugins it knows.
    "logging": {"verbosity": 2},
}
# The programs of the control plane live for minutes: with less collecting they take an eighth less processor time, and what a run
# writes need not survive a power cut. This is kubeadm's newer language: without it they run as they are.
_OFTEN_ENOUGH: Final = [{"name": "GOGC", "value": "400"}]
_PROGRAMS: Final = {
    "apiVersion": "kubeadm.k8s.io/v1beta4",
    "kind": "ClusterConfiguration",
    "apiServer": {"extraEnvs": _OFTEN_ENOUGH},
    "controllerManager": {"extraEnvs": _OFTEN_ENOUGH},
    "etcd": {
        "local": {"extraEnvs": _OFTEN_ENOUGH, "extraArgs": [{"name": "unsafe-no-fsync", "value": "true"}]},
    },
}


@dataclass(frozen=True, slots=True)
class Files:
    """Files and folders of the host that nodes read."""

    images: Path
    """A folder of archives of images."""
    scheduler_config: Path
    container_specification: Path
    """With what containerd begins each container."""
    no_cards: Path
    """An empty folder."""
    logs: Path
    """A folder for the logs of the pods on the control plane."""


@dataclass(frozen=True, slots=True)
class Patches:
    """The text that kind lays over its own configuration of programs."""

    scheduler: str
    """Lets kubeadm give kube-scheduler its configuration."""
    containerd: str
    """Lets containerd read the specification."""


@dataclass(frozen=True, slots=True)
class Worker:
    """A node with a kubelet for pods: its Node's name, what it is labelled, its folder on the host (``NODE_FOLDERS``)."""

    name: str
    folder: Path
    labels: Mapping[str, str] = field(default_factory=dict)


def container_of_control_plane(cluster: str) -> str:
    """How kind names it."""
    return f"{cluster}-control-plane"


def containers_of_workers(cluster: str, workers: Sequence[str]) -> dict[str, str]:
    """How kind names their containers, in the order of its configuration: Node name to container."""
    return {name: f"{cluster}-worker{number if number > 1 else ''}" for number, name in enumerate(workers, start=1)}


def cluster_config(
    cluster: str, image: str, workers: Sequence[Worker], files: Files, patches: Patches
) -> dict[str, Any]:
    """The configuration file of ``kind create cluster``: one control plane, these workers, the API on loopback alone."""
    on_every_node = [mount(files.images, HANDED_IN), mount(files.container_specification, SPECIFICATION)]
    return {
        "kind": "Cluster",
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "name": cluster,
        "networking": {"apiServerAddress": "127.0.0.1", "ipFamily": "ipv4"},
        "containerdConfigPatches": [patches.containerd],
        "nodes": [
            {
                "role": "control-plane",
                "image": image,
                "extraMounts": [
                    *on_every_node,
                    mount(files.scheduler_config, SCHEDULER_CONFIG),
                    mount(files.no_cards, CARDS),
                    {"hostPath": str(files.logs), "containerPath": LOGS},
                ],
                # All kubelets share the configuration of this one.
                "kubeadmConfigPatches": [
                    patches.scheduler,
                    *(yaml.safe_dump(one, sort_keys=False) for one in (_KUBELET, _PROGRAMS)),
                ],
            },
            *(_worker(image, worker, on_every_node) for worker in workers),
        ],
    }


def _worker(image: str, worker: Worker, on_every_node: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Its Node has the name in the cluster's file, not the container's."""
    named = {"kind": "JoinConfiguration", "nodeRegistration": {"name": worker.name}}
    own = [{"hostPath": str(worker.folder / name), "containerPath": inside} for name, inside in NODE_FOLDERS.items()]
    return {
        "role": "worker",
        "image": image,
        "labels": dict(worker.labels),
        "extraMounts": [*on_every_node, *own],
        "kubeadmConfigPatches": [yaml.safe_dump(named, sort_keys=False)],
    }


def mount(path: Path, inside: str) -> dict[str, Any]:
    """A file of the host, in a node, for reading."""
    return {"hostPath": str(path), "containerPath": inside, "readOnly": True}
