"""kind's configuration of a cluster: its nodes, the host's folders in them, the scheduler's configuration.

How containers on a node come to its simulated cards, as NVIDIA's runtime would bring them to real ones: pods name only an amount
of memory, and the device plugin answers with variables, and neither knows of a state file. So the node's container runtime puts
its folder into every container: containerd begins each container from a specification, and here that is its own one with one
mount more. ``NVIDIA_VISIBLE_DEVICES`` decides which card a container then uses. A mount of the same folder that a pod asks for
itself takes its place.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from clusters.deploy import render
from clusters.processes.commands import run

# The beginning of the names of clusters that are ours.
PREFIX: Final = "gpushare-"
# On every node, control planes too: a folder on the host is mounted there, empty if there are no cards.
CARDS: Final = "/var/lib/gpushare-simulated"
# Where a node's containerd finds the specification.
SPECIFICATION: Final = "/etc/containerd/gpushare-simulated.json"
# For ``containerdConfigPatches`` of a kind configuration.
CONTAINERD_PATCH: Final = f"""\
version = 3

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
  base_runtime_spec = '{SPECIFICATION}'
"""
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

# In the folder of a run: an empty one, the scheduler's configuration, and with what containerd begins each container.
_NO_CARDS: Final = "no-cards"
_SCHEDULER: Final = "scheduler-config.yaml"
_SPECIFICATION: Final = "container.json"

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


def write_config(
    folder: Path,
    cluster: str,
    image: str,
    workers: Sequence[Worker],
    images: Path,
    logs: Path,
    specification: str,
    scheduler: str,
) -> Path:
    """Write the configuration of ``kind create cluster`` into the run's folder, and the files that it hands to the nodes.

    One control plane, these workers, the API on loopback alone. ``images`` is a folder of archives of images, ``logs`` one for the
    logs of the pods on the control plane. ``scheduler`` is the text of the KubeSchedulerConfiguration; "" leaves kube-scheduler as
    kubeadm installs it.
    """
    (folder / _NO_CARDS).mkdir()
    logs.mkdir(parents=True)
    (folder / _SPECIFICATION).write_text(specification)
    on_every_node = [mount(images, HANDED_IN), mount(folder / _SPECIFICATION, SPECIFICATION)]
    # All kubelets share the configuration of the control plane's.
    patches = [yaml.safe_dump(one, sort_keys=False) for one in (_KUBELET, _PROGRAMS)]
    mounts = [
        *on_every_node,
        {"hostPath": str(folder / _NO_CARDS), "containerPath": CARDS},
        {"hostPath": str(logs), "containerPath": LOGS},
    ]
    if scheduler:
        (folder / _SCHEDULER).write_text(scheduler)
        mounts.append(mount(folder / _SCHEDULER, SCHEDULER_CONFIG))
        patches.insert(0, render.SCHEDULER_PATCH.read_text())
    config = {
        "kind": "Cluster",
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "name": cluster,
        "networking": {"apiServerAddress": "127.0.0.1", "ipFamily": "ipv4"},
        "containerdConfigPatches": [CONTAINERD_PATCH],
        "nodes": [
            {"role": "control-plane", "image": image, "extraMounts": mounts, "kubeadmConfigPatches": patches},
            *(_worker(image, worker, on_every_node) for worker in workers),
        ],
    }
    path = folder / "kind.yaml"
    path.write_text(yaml.safe_dump(config, sort_keys=False))
    return path


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


def specification(node_image: str, environment: Mapping[str, str]) -> str:
    """The text of that file for nodes of this image, made of what their containerd begins with. Raises ClusterError."""
    argv = ["docker", "run", "--rm", "--network=none", "--entrypoint=ctr", node_image, "oci", "spec"]
    return json.dumps(with_cards(json.loads(run(argv, environment))), indent=1)


def with_cards(default: Mapping[str, Any]) -> dict[str, Any]:
    """A container's specification with the cards' folder in it; the limits of its processes stay the node's."""
    mount = {"destination": CARDS, "type": "bind", "source": CARDS, "options": ["rbind", "rw"]}
    process = {name: value for name, value in default["process"].items() if name != "rlimits"}
    return {**default, "process": process, "mounts": [*default["mounts"], mount]}
