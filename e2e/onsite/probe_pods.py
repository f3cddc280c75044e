"""Pods that run the probe of ``clusters.images.gpu_probe``, by any image with Python 3 and as an ordinary user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from clusters.images.behaviour import probe_container
from e2e import spec
from e2e.onsite.card_room import NodeRoom
from e2e.onsite.tenancy import PRIORITY_CLASS

# Any number that is not root's.
_USER: Final = 65532
# By these a namespace that enforces the pod security standard "restricted" takes the pods.
POD_SECURITY: Final[Mapping[str, Any]] = {
    "runAsNonRoot": True,
    "runAsUser": _USER,
    "runAsGroup": _USER,
    "seccompProfile": {"type": "RuntimeDefault"},
}
CONTAINER_SECURITY: Final[Mapping[str, Any]] = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}


@dataclass(frozen=True, slots=True)
class Carrier:
    """The image of a node's probe pods, and their RuntimeClass ("" for the node's default runtime)."""

    image: str
    runtime_class: str = ""


def probe_pod(
    name: str, room: NodeRoom, carrier: Carrier, units: Sequence[int], *arguments: object, card_uuid: str = ""
) -> dict[str, Any]:
    """A pod with one container for each amount of units, on the room's node; each runs the probe with these arguments.

    ``card_uuid`` is a wish for one card, which gpushare knows and the original does not.
    """
    metadata: dict[str, Any] = {"name": name}
    if card_uuid:
        metadata["annotations"] = {spec.WISH_UUID: card_uuid}
    # By the node's name: its label kubernetes.io/hostname may have another value.
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [room.node]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    body: dict[str, Any] = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 5,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "priorityClassName": PRIORITY_CLASS,
        "affinity": {"nodeAffinity": required},
        # By this taint, clusters keep other pods from their GPU nodes.
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
        "securityContext": POD_SECURITY,
        "containers": [
            _container(f"c{number}", room, carrier.image, one, arguments) for number, one in enumerate(units)
        ],
    }
    if carrier.runtime_class:
        body["runtimeClassName"] = carrier.runtime_class
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body}


def _container(name: str, room: NodeRoom, image: str, units: int, arguments: Sequence[object]) -> dict[str, Any]:
    limits = {spec.RESOURCE_MEMORY: units, **({spec.RESOURCE_SLOT: 1} if room.has_slots else {})}
    # It asks for no processor and no memory, of which a full node has none.
    return {
        **probe_container(name, image, *map(str, arguments), limits=limits),
        # The device plugin's image is on the node; its registry may ask for a secret that these pods have not.
        "imagePullPolicy": "IfNotPresent",
        # CUDA's library, and NVML's beside nvidia-smi: an image need not ask NVIDIA's runtime for them.
        "env": [{"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "compute,utility"}],
        "securityContext": CONTAINER_SECURITY,
    }
