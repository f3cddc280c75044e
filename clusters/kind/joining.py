"""A further worker for a cluster that is up. kind has no verb for it: a container as kind makes them, and kubeadm in it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from clusters.api.waiting import eventually
from clusters.kind.kind_config import NODE_FOLDERS, Worker
from clusters.kind.node_container import NodeContainer, docker
from clusters.kind.sweeping import LABEL

# The file in which kind keeps the configuration of a node's kubeadm.
_KUBEADM: Final = "/kind/kubeadm.conf"
# kind laid our patch over it.
_CONTAINERD: Final = "/etc/containerd/config.toml"
# systemd prints this on the console when the node's own programs run.
_BOOTED: Final = "Reached target"
_BOOT_SECONDS: Final = 60.0
# As kind starts a node: its own systemd and containerd inside, which need the machine's privileges.
_RUN: Final = (
    *("--detach", "--tty", "--privileged", "--init=false", "--restart=on-failure:1", "--cgroupns=private"),
    *("--security-opt", "seccomp=unconfined", "--security-opt", "apparmor=unconfined"),
    *("--tmpfs", "/tmp", "--tmpfs", "/run", "--volume", "/var"),  # noqa: S108  # in the node
)


async def join(
    cluster: str, worker: Worker, like: NodeContainer, container: str, environment: Mapping[str, str]
) -> None:
    """Start ``container`` and let it join ``cluster`` as ``worker``; ``like`` is a worker that did. Raises ClusterError."""
    (pattern,) = json.loads(await docker(environment, "inspect", like.container))
    mounts = [f"{worker.folder / name}:{inside}" for name, inside in NODE_FOLDERS.items()]
    mounts += [bind for bind in pattern["HostConfig"]["Binds"] if bind.split(":")[1] not in NODE_FOLDERS.values()]
    labels = {LABEL: cluster, "io.x-k8s.kind.role": "worker"}
    await docker(
        environment,
        *("run", "--name", container, "--hostname", container, *_RUN),
        *("--net", pattern["HostConfig"]["NetworkMode"]),
        *(word for name, value in labels.items() for word in ("--label", f"{name}={value}")),
        *(word for mount in mounts for word in ("--volume", mount)),
        pattern["Config"]["Image"],
    )
    joining = NodeContainer(worker.name, container, environment, worker.folder / "logs")
    await eventually(
        lambda: docker(environment, "logs", container),
        lambda text: _BOOTED in text and "Multi-User" in text,
        f"{container} has booted",
        seconds=_BOOT_SECONDS,
    )
    (found,) = json.loads(await docker(environment, "inspect", container))
    (network,) = found["NetworkSettings"]["Networks"].values()
    told = kubeadm_config(await like.execute("cat", _KUBEADM), worker, network["IPAddress"], container)
    await _write(worker.folder / "kubeadm.conf", told, f"{container}:{_KUBEADM}", environment)
    containerd = await like.execute("cat", _CONTAINERD)
    await _write(worker.folder / "containerd.toml", containerd, f"{container}:{_CONTAINERD}", environment)
    await joining.execute("systemctl", "restart", "containerd")
    await joining.execute("kubeadm", "join", "--config", _KUBEADM)


async def _write(path: Path, text: str, to: str, environment: Mapping[str, str]) -> None:
    """A file in a container, by way of one here."""
    path.write_text(text)
    await docker(environment, "cp", str(path), to)


def kubeadm_config(like: str, worker: Worker, address: str, container: str) -> str:
    """The configuration of kubeadm for ``worker``, made of another worker's."""
    documents = [document for document in yaml.safe_load_all(like) if document]
    for document in documents:
        if document["kind"] == "JoinConfiguration":
            registration = document["nodeRegistration"]
            registration["name"] = worker.name
            arguments = as_map(registration["kubeletExtraArgs"])
            provider = arguments["provider-id"].rpartition("/")[0]
            labels = ",".join(f"{name}={value}" for name, value in worker.labels.items())
            arguments |= {"node-ip": address, "provider-id": f"{provider}/{container}", "node-labels": labels}
            registration["kubeletExtraArgs"] = as_in(registration["kubeletExtraArgs"], arguments)
    return yaml.safe_dump_all(documents, sort_keys=False)


def as_map(arguments: Any) -> dict[str, str]:
    """Arguments in either form that kubeadm had: a map, or since v1beta4 a list of names and values."""
    return dict(arguments) if isinstance(arguments, dict) else {one["name"]: one["value"] for one in arguments}


def as_in(form: Any, arguments: Mapping[str, str]) -> Any:
    """Back in the form that ``form`` has."""
    return dict(arguments) if isinstance(form, dict) else [{"name": key, "value": arguments[key]} for key in arguments]
