"""The fields of a Pod object that a kubelet reads, and whether it lets the pod in. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from clusters.amounts import Amounts, amounts_of, is_extended_resource, requests_of, total
from clusters.kubelet.proto import deviceplugin_pb2 as pb

Object = dict[str, Any]

_CHECKED_FIRST: Final = ("pods", "cpu", "memory", "ephemeral-storage")


class Kind(Enum):
    """The three kinds of container; a sidecar is an init container that is always restarted."""

    INIT = "init"
    SIDECAR = "sidecar"
    APP = "app"


@dataclass(frozen=True, slots=True)
class Container:
    """One container of a pod's spec; limits are the texts of the manifest."""

    name: str
    image: str
    kind: Kind
    limits: Mapping[str, str]
    env: tuple[Object, ...]
    command: tuple[str, ...]
    env_from: tuple[Object, ...] = ()


def containers_of(pod: Object) -> tuple[Container, ...]:
    """All containers in the order in which a kubelet allocates for them and starts them."""
    return tuple(_containers(pod["spec"]))


def _containers(spec: Object) -> Iterator[Container]:
    for item in spec.get("initContainers") or ():
        yield _container(item, Kind.SIDECAR if item.get("restartPolicy") == "Always" else Kind.INIT)
    for item in spec.get("containers") or ():
        yield _container(item, Kind.APP)


def _container(item: Object, kind: Kind) -> Container:
    resources = item.get("resources") or {}
    limits = {name: str(amount) for name, amount in (resources.get("limits") or {}).items()}
    return Container(
        name=item["name"],
        image=item.get("image", ""),
        kind=kind,
        limits=limits,
        env=tuple(item.get("env") or ()),
        command=(*(item.get("command") or ()), *(item.get("args") or ())),
        env_from=tuple(item.get("envFrom") or ()),
    )


def grace_seconds(pod: Object) -> float:
    """How long its containers may take to stop, in seconds: the deletion's word, else the spec's, else 30; at least 1.

    A deletion with 0 is one by force: the object is gone, and the containers still get the time in the spec.
    """
    spec = pod["spec"].get("terminationGracePeriodSeconds")
    asked = pod["metadata"].get("deletionGracePeriodSeconds") or (30 if spec is None else spec)
    return max(float(asked), 1.0)


def restart_policy(pod: Object) -> str:
    """``Always`` (the default), ``OnFailure`` or ``Never``."""
    return str(pod["spec"].get("restartPolicy") or "Always")


def is_restarted(kind: Kind, policy: str, exit_code: int) -> bool:
    """Whether a container that ended with ``exit_code`` starts again; an init container does only after a failure."""
    if kind is Kind.SIDECAR:
        return True
    if kind is Kind.INIT:
        return exit_code != 0 and policy != "Never"
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a pod ends before it began: ``status.reason`` and ``status.message``."""

    reason: str
    message: str


def device_rejection(error: Exception) -> Rejection:
    """The end of a pod that did not get its devices; nothing tries it again."""
    return Rejection(
        "UnexpectedAdmissionError",
        f"Pod was rejected: Allocate failed due to {error}, which is unexpected",
    )


def resource_rejection(
    pod: Object, others: Iterable[Object], allocatable: Mapping[str, str], held: Mapping[str, int]
) -> Rejection | None:
    """The first resource of which the node has too little, or None (Kubernetes pkg/kubelet/lifecycle/predicate.go).

    It is asked last, after devices were allocated.

    ``others`` are the pods that run here, ``allocatable`` is the node's status, ``held`` how many devices containers
    have of each resource: what is allocated counts as present, so that a running pod is let in again after a restart
    although its plugin has not come back. Extended resources that the node does not know are not checked.
    """
    have = amounts_of(allocatable)
    for name, count in held.items():
        have[name] = max(have.get(name, 0), count)
    asked, used = _asked(pod), total(map(_asked, others))
    for name in sorted(asked, key=_rank):
        unknown = name not in have and is_extended_resource(name)
        if asked[name] and not unknown and used.get(name, 0) + asked[name] > have.get(name, 0):
            return Rejection(
                f"OutOf{name}",
                f"Pod was rejected: Node didn't have enough resource: {name}, "
                f"requested: {asked[name]}, used: {used.get(name, 0)}, capacity: {have.get(name, 0)}",
            )
    return None


def _asked(pod: Object) -> Amounts:
    return requests_of(pod) | {"pods": 1}


def _rank(name: str) -> tuple[int, str]:
    return (_CHECKED_FIRST.index(name) if name in _CHECKED_FIRST else len(_CHECKED_FIRST), name)


# A simulated container's log begins with these: every variable with which a device plugin gives it its share.
_GPU_NAMES: Final = ("NVIDIA_VISIBLE_DEVICES", "CGPU_DISABLE")
_GPU_PREFIXES: Final = ("ALIYUN_COM_GPU_MEM_", "NVIDIA_GPU_MEMORY_")
_CDI_KIND: Final = "nvidia.com/gpu="
_CDI_PREFIX: Final = "cdi.k8s.io/"
_MOUNTS_FOLDER: Final = "/var/run/nvidia-container-devices"


def environment_of(pod: Object, container: Container, *before: Mapping[str, str]) -> dict[str, str]:
    """The variables of ``before`` (of plugins, then of ``envFrom``), then the pod's own; the last wins, as on a real kubelet.

    Of ``valueFrom`` the fields of the pod's metadata and ``spec.nodeName`` are known; other sources are left out.
    """
    merged = {name: value for variables in before for name, value in variables.items()}
    for item in container.env:
        value = _field(pod, item["valueFrom"]) if "valueFrom" in item else item.get("value", "")
        if value is not None:
            merged[item["name"]] = value
    return merged


def gpu_lines(environment: Mapping[str, str]) -> list[str]:
    """``NAME=value`` of the GPU variables, sorted."""
    names = sorted(name for name in environment if name in _GPU_NAMES or name.startswith(_GPU_PREFIXES))
    return [f"{name}={environment[name]}" for name in names]


def _field(pod: Object, source: Object) -> str | None:
    path = (source.get("fieldRef") or {}).get("fieldPath", "")
    metadata = pod["metadata"]
    plain = {"spec.nodeName": str(pod["spec"].get("nodeName", ""))}
    plain |= {f"metadata.{name}": str(metadata.get(name, "")) for name in ("name", "namespace", "uid")}
    if path in plain:
        return plain[path]
    for kind in ("annotations", "labels"):
        prefix = f"metadata.{kind}['"
        if path.startswith(prefix) and path.endswith("']"):
            return str((metadata.get(kind) or {}).get(path[len(prefix) : -2], ""))
    return None


@dataclass(frozen=True, slots=True)
class DeviceRequests:
    """The devices of the CDI by their full names, and the paths that are mounted into the container.

    ``variables`` are those of the plugins alone, before the pod's.
    """

    cdi: tuple[str, ...] = ()
    mounts: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def other_devices(self) -> list[str]:
        """Those of the CDI that are no cards."""
        return [name for name in self.cdi if "/" in name and "nvidia.com/" not in name]

    def lines(self) -> list[str]:
        """As a simulated container's log shows them."""
        return [f"CDI device {name}" for name in self.cdi] + [f"mount {path}" for path in self.mounts]


def device_requests_of(answers: Sequence[pb.ContainerAllocateResponse], variables: Mapping[str, str]) -> DeviceRequests:
    """Those of a container, from the plugins' answers."""
    cdi = [device.name for answer in answers for device in answer.cdi_devices]
    cdi += [
        name
        for answer in answers
        for key, names in sorted(answer.annotations.items())
        if key.startswith(_CDI_PREFIX)
        for name in names.split(",")
    ]
    mounts = [mount.container_path for answer in answers for mount in answer.mounts]
    return DeviceRequests(tuple(dict.fromkeys(cdi)), tuple(mounts), variables)


def visible_devices(environment: Mapping[str, str], requests: DeviceRequests) -> str | None:
    """The value of NVIDIA_VISIBLE_DEVICES that would name the same cards."""
    value = environment.get("NVIDIA_VISIBLE_DEVICES")
    if value == _MOUNTS_FOLDER:
        return ",".join(_below(_MOUNTS_FOLDER + "/", requests.mounts))
    named = _below(_CDI_KIND, requests.cdi)
    return ",".join(named) if named else value


def _below(prefix: str, names: Sequence[str]) -> list[str]:
    return [name.removeprefix(prefix) for name in names if name.startswith(prefix)]
