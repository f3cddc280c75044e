"""How much of a pod stays in memory: the fields that our programs read later, each of bounded size. Pure.

The API takes pods of more than a megabyte, with 256 KiB of annotations among it, and the author of a pod decides what is
in them. Both programs keep many pods at once, so they keep ``kept_of(pod)``. Every reader in ``model`` gives the same
answer for it as for the whole pod, the same refusal included: a text that is too large is cut one character behind its bound.
(``eviction`` reads more, but only of a pod that has just come.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from gpushare import wire
from gpushare.bounds import (
    ALLOCATION_CHARACTERS,
    ANNOTATION_KEPT,
    MESSAGE_KEPT,
    QUANTITY_TEXT,
    WISH_CHARACTERS,
    Bound,
)
from gpushare.manifests import Container, ObjectMeta, OwnerReference, Pod, PodSpec, PodStatus, Resources
from gpushare.model.wishes import unknown_wish

Amount = str | int | float

# On the API's copy of a static pod: the uid that the kubelet itself uses for it. Both mark a static pod.
STATIC_UID: Final = "kubernetes.io/config.hash"
MIRROR: Final = "kubernetes.io/config.mirror"

# The annotations that our programs write on a pod. Its author has no say in these once the pod is bound.
OURS: Final = (
    wire.ANNOTATION_INDEX,
    wire.ANNOTATION_DEVICE_UNITS,
    wire.ANNOTATION_POD_UNITS,
    wire.ANNOTATION_ASSIGNED,
    wire.ANNOTATION_ASSUME_TIME,
    wire.ANNOTATION_REPAIR,
    wire.ANNOTATION_EXTENDER,
    wire.ANNOTATION_ENDED,
    wire.ANNOTATION_ALLOCATION,
)
_BOUNDS: Final[Mapping[str, Bound]] = {
    **dict.fromkeys((*OURS, STATIC_UID, MIRROR), ANNOTATION_KEPT),
    **dict.fromkeys(wire.WISHES, WISH_CHARACTERS),
    wire.ANNOTATION_ALLOCATION: ALLOCATION_CHARACTERS,
}
_RESOURCES: Final = frozenset({wire.RESOURCE_MEMORY, wire.RESOURCE_COUNT, wire.RESOURCE_SLOT, "cpu"})


def kept_of(pod: Pod) -> Pod:
    """The pod without the annotations, labels and fields that none of our programs reads later."""
    spec = pod.spec
    return Pod(
        _metadata(pod.metadata),
        PodSpec(
            node_name=spec.node_name,
            containers=_containers(spec.containers),
            init_containers=_containers(spec.init_containers),
            priority=spec.priority,
        ),
        None if pod.status is None else _status(pod.status),
    )


def _metadata(metadata: ObjectMeta) -> ObjectMeta:
    return ObjectMeta(
        name=metadata.name,
        namespace=metadata.namespace,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        annotations=_annotations(metadata.annotations),
        creation_timestamp=metadata.creation_timestamp,
        deletion_timestamp=metadata.deletion_timestamp,
        owner_references=_controller(metadata.owner_references),
    )


def _annotations(annotations: Mapping[str, str] | None) -> dict[str, str] | None:
    annotations = annotations or {}
    kept = {name: annotations[name][: bound.most + 1] for name, bound in _BOUNDS.items() if name in annotations}
    unknown = unknown_wish(annotations)
    return (kept | {unknown: ""} if unknown else kept) or None


def _controller(owners: Iterable[OwnerReference] | None) -> list[OwnerReference] | None:
    found = next((owner for owner in owners or () if owner.controller), None)
    return None if found is None else [found]


def _containers(containers: Iterable[Container] | None) -> list[Container] | None:
    if containers is None:
        return None
    return [
        Container(name=one.name, resources=_resources(one.resources), restart_policy=one.restart_policy)
        for one in containers
    ]


def _resources(resources: Resources | None) -> Resources | None:
    return None if resources is None else Resources(_amounts(resources.limits), _amounts(resources.requests))


def _amounts(amounts: Mapping[str, Amount] | None) -> dict[str, Amount] | None:
    """Ours, and the first of another plugin's, which shows that there is one."""
    amounts = amounts or {}
    other = next((name for name in amounts if "/" in name and name not in _RESOURCES), "")
    return {name: _amount(amounts[name]) for name in (*_RESOURCES, other) if name in amounts} or None


def _amount(value: Amount) -> Amount:
    return value[: QUANTITY_TEXT.most + 1] if isinstance(value, str) else value


def _status(status: PodStatus) -> PodStatus:
    if status.message is None:
        return status
    return replace(status, message=status.message[: MESSAGE_KEPT.most])
