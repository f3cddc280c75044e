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
from gpushare.manifests import Container, Pod, PodSpec, Resources
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
    metadata, spec, status = pod.metadata, pod.spec, pod.status
    kept = PodSpec(
        node_name=spec.node_name,
        containers=_containers(spec.containers),
        init_containers=_containers(spec.init_containers),
        priority=spec.priority,
    )
    if status is not None and status.message is not None:
        status = replace(status, message=status.message[: MESSAGE_KEPT.most])
    controller = next((owner for owner in metadata.owner_references or () if owner.controller), None)
    owners = None if controller is None else [controller]
    annotations = _annotations(metadata.annotations or {})
    return Pod(replace(metadata, annotations=annotations, labels=None, owner_references=owners), kept, status)


def _annotations(annotations: Mapping[str, str]) -> dict[str, str] | None:
    kept = {name: annotations[name][: bound.most + 1] for name, bound in _BOUNDS.items() if name in annotations}
    unknown = unknown_wish(annotations)
    return (kept | {unknown: ""} if unknown else kept) or None


def _containers(containers: Iterable[Container] | None) -> list[Container] | None:
    if containers is None:
        return None
    return [
        Container(
            name=one.name,
            resources=one.resources and Resources(_amounts(one.resources.limits), _amounts(one.resources.requests)),
            restart_policy=one.restart_policy,
        )
        for one in containers
    ]


def _amounts(amounts: Mapping[str, Amount] | None) -> dict[str, Amount] | None:
    """Ours, and the first of another plugin's, which shows that there is one."""
    amounts = amounts or {}
    other = next((name for name in amounts if "/" in name and name not in _RESOURCES), "")
    kept = {name: amounts[name] for name in (*_RESOURCES, other) if name in amounts}
    return {
        name: amount[: QUANTITY_TEXT.most + 1] if isinstance(amount, str) else amount for name, amount in kept.items()
    } or None
