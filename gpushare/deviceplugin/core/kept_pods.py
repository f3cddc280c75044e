"""The part of a pod that the plugin keeps: of bounded size (``model.kept``), and decoded once for each version. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from gpushare import wire
from gpushare.bounds import ANNOTATION_KEPT, CONTAINERS_OF_A_POD
from gpushare.manifests import Container, ObjectMeta, Pod
from gpushare.model.allocation import Allocation, read_allocation
from gpushare.model.kept import MIRROR, kept_of
from gpushare.model.pod import is_finished

RESOURCES: Final = (wire.RESOURCE_MEMORY, wire.RESOURCE_SLOT)


class KeptPod(Pod, gc=False):
    """A pod of this node, with the allocation that its annotations say (None: they say no valid card)."""

    allocation: Allocation | None = None


def containers_of(pod: Pod) -> list[Container]:
    """All containers, the init containers first."""
    return [*(pod.spec.init_containers or ()), *(pod.spec.containers or ())]


def asks_for_cards(pod: Pod) -> bool:
    """Does the pod ask for our resources?"""
    return any(map(_asks, containers_of(pod)))


def keep(pod: Pod, annotations: dict[str, str]) -> KeptPod:
    """A pod that was cut down, with these annotations in place of its own."""
    allocation = decoded_from(annotations, pod)
    return KeptPod(replace(pod.metadata, annotations=annotations), pod.spec, pod.status, allocation)


def cut_down(pod: Pod) -> Pod | None:
    """The part of a pod that is read: all that matters of one that asks for cards, else which it is; None if nothing matters."""
    if asks_for_cards(pod):
        return kept_of(_with_fewer_containers(pod))
    return None if is_finished(pod) else Pod(identity(pod))


def _with_fewer_containers(pod: Pod) -> Pod:
    """A pod of too many containers with the first of those that ask for our resources.

    It is not left out, because the kubelet may give it ids: those count, and a call for another of its containers is refused.
    """
    if not CONTAINERS_OF_A_POD.exceeded(len(containers_of(pod))):
        return pod
    inits = [one for one in pod.spec.init_containers or () if _asks(one)][: CONTAINERS_OF_A_POD.most]
    others = [one for one in pod.spec.containers or () if _asks(one)][: CONTAINERS_OF_A_POD.most - len(inits)]
    return Pod(pod.metadata, replace(pod.spec, init_containers=inits, containers=others), pod.status)


def without_annotations(pod: Pod) -> Pod:
    """The part of an ended pod that is remembered."""
    return Pod(replace(pod.metadata, annotations=None), pod.spec, pod.status)


def identity(pod: Pod) -> ObjectMeta:
    """Which pod it is, also by the hash that a static pod's containers carry; nothing else."""
    metadata = pod.metadata
    mirror = (metadata.annotations or {}).get(MIRROR)
    annotations = None if mirror is None else {MIRROR: mirror[: ANNOTATION_KEPT.most]}
    return ObjectMeta(metadata.name, metadata.namespace, metadata.uid, metadata.resource_version, annotations)


def allocation_of(pod: Pod) -> Allocation | None:
    """The card of a pod that asks for card memory; None if its annotations name no valid one."""
    return pod.allocation if isinstance(pod, KeptPod) else decoded_from(pod.metadata.annotations, pod)


def decoded_from(annotations: Mapping[str, str] | None, pod: Pod) -> Allocation | None:
    """The allocation that these annotations would say of the pod."""
    return read_allocation(pod, annotations)[0]


def indices_of(pod: Pod) -> frozenset[int]:
    """Card indices that a pod which has not ended names, the one that a repair marks too."""
    allocation = None if is_finished(pod) else allocation_of(pod)
    return frozenset(index for index, _ in allocation.booked) if allocation is not None else frozenset()


def indices_in_use(pods: Iterable[Pod]) -> frozenset[int]:
    """Card indices that any of these pods names: no other card may get one of them."""
    return frozenset(index for pod in pods for index in indices_of(pod))


def _asks(container: Container) -> bool:
    resources = container.resources
    amounts = (resources.limits, resources.requests) if resources is not None else ()
    return any(one and any(name in one for name in RESOURCES) for one in amounts)
