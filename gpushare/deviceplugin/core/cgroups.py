"""Which pod a control group belongs to, by its name. Pure.

The kubelet names a pod's group by its uid, the runtime a container's by its id; the form depends on the cgroup driver,
the runtime and the version of cgroups. Only the part that all of them share is read here::

    cgroupfs   /kubepods/burstable/pod<uid>/<id>                                                 (CRI-O: crio-<id>)
    systemd    /kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<uid with _>.slice/cri-containerd-<id>.scope
               (Docker: docker-<id>.scope, CRI-O: crio-<id>.scope, and a group below it on some versions)
    containerd on cgroupfs under a systemd kubelet
               /system.slice/containerd.service/kubepods-burstable-pod<uid with _>.slice:cri-containerd:<id>

In front of it may be whatever the node itself runs in (kind: ``/docker/<id>/kubelet.slice/kubelet-kubepods…``), and a
reader in a cgroup namespace of its own sees the way from there (``/../../kubepods-…``), which may leave ``kubepods``
out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

# A pod's uid; that of a static pod is 32 digits, the hash of its manifest. systemd turns the dashes into underscores.
_UID: Final = r"(?:[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})"
_POD: Final = re.compile(rf"(?:^|[/:-])pod({_UID})(?=\.slice(?:[/:]|$)|/|$)")
_CONTAINER: Final = re.compile(r"(?<![0-9a-f])([0-9a-f]{64})(?![0-9a-f])")


@dataclass(frozen=True, slots=True)
class ContainerGroup:
    """A container's control group; ``container_id`` is empty for a process in the pod's group that is in no container's."""

    pod_uid: str
    container_id: str = ""


def containers_of(text: str) -> tuple[ContainerGroup, ...]:
    """The containers in a ``/proc/<pid>/cgroup``, the outermost pod first; empty for a process of no pod.

    There is more than one pod if a node runs in a pod. The first line that names a pod counts: version 1 has a line
    for each controller, and all of them name the same.
    """
    for line in text.splitlines():
        _, _, path = line.partition(":")
        _, _, path = path.partition(":")
        found = _containers_in(path)
        if found:
            return found
    return ()


def _containers_in(path: str) -> tuple[ContainerGroup, ...]:
    if "kubepods" not in path and not path.startswith("/.."):
        return ()
    pods = list(_POD.finditer(path))
    # A pod's containers are named before the next pod's begin.
    ends = [pod.start() for pod in pods[1:]] + [len(path)] * bool(pods)
    return tuple(
        ContainerGroup(_uid(pod[1]), _container_id(path[pod.end() : end])) for pod, end in zip(pods, ends, strict=True)
    )


def _uid(text: str) -> str:
    return text.replace("_", "-")


def _container_id(rest: str) -> str:
    found = _CONTAINER.search(rest)
    return found[1] if found else ""
