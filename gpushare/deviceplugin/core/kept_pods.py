"""The part of a pod that the plugin keeps: of bounded size (``model.pod``), and decoded once for each version. Pure.

The cards that were bound are remembered (``KeptPod``): later annotations of its author change nothing. All that the plugin
decides takes this value, so no decision reads a quantity or an annotation again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from gpushare import wire
from gpushare.bounds import ANNOTATION_KEPT, CONTAINER_ID, CONTAINERS_OF_A_POD, LIMITS_TEXT
from gpushare.errors import GpushareError
from gpushare.manifests import Container, ContainerState, ContainerStatus, NotRunning, ObjectMeta, Pod, PodOutline
from gpushare.model.allocation import Allocation, encode, read_allocation
from gpushare.model.limits import START_ERROR, hook_failure
from gpushare.model.pod import (
    MIRROR,
    OURS,
    all_containers,
    bare,
    controller_of,
    gpu_containers,
    is_finished,
    kept_of,
    names_slots,
    pod_request,
    was_started,
)
from gpushare.model.quantity import is_number

RESOURCES: Final = (wire.RESOURCE_MEMORY, wire.RESOURCE_SLOT)
_NUMBERS: Final = (wire.ANNOTATION_DEVICE_UNITS, wire.ANNOTATION_ASSUME_TIME)

Changes = Mapping[str, str | None]


class KeptPod(Pod, gc=False):
    """A pod of this node, with the annotations that count in the place of its own.

    The first time that the API shows a pod on this node with a valid card, its annotations are those of the Binding. From then on
    only two things change what counts: what the plugin itself writes (``expected``, then ``confirmed``), and the kubelet's records
    (``corrected``). Whatever else is ``shown`` is a difference that is reconciled (``differences``).

    ``allocation`` is that of the annotations that count (None: they name no valid card). ``units`` are what it asks for at its
    worst moment, ``gpu_containers`` the ``(name, units)`` of each container that asks for card memory, in a kubelet's order of
    allocation; 0 and none for amounts that make no sense. ``keeps_rule_of_slots``: each container asks for memory and one slot, or
    for neither. ``expected`` are the changes of a write of ours that is under way, or whose answer was lost.
    """

    allocation: Allocation | None = None
    units: int = 0
    gpu_containers: tuple[tuple[str, int], ...] = ()
    keeps_rule_of_slots: bool = False
    was_started: bool = False
    shown: Mapping[str, str] = {}
    expected: Changes | None = None


def asks_for_cards(pod: Pod) -> bool:
    """Does the pod ask for our resources?"""
    return any(map(_asks, all_containers(pod)))


def keep(pod: Pod, known: KeptPod | None = None) -> KeptPod:
    """A pod that was cut down, as the API shows it now; ``known`` is what was kept of it before."""
    shown = pod.metadata.annotations or {}
    expected = known.expected if known is not None else None
    if known is None or known.allocation is None:
        return _kept(pod, shown, shown, expected)
    counts = known.metadata.annotations or {}
    if expected is not None and all(shown.get(name) == text for name, text in expected.items()):
        # It has happened. From here on the author alone can have brought a difference.
        counts, expected = _merged(counts, expected), None
    return _kept(pod, counts, shown, expected)


def confirmed(pod: KeptPod) -> KeptPod:
    """The pod once the write that was expected has happened."""
    annotations = pod.metadata.annotations or {}
    if pod.expected is not None and pod.allocation is not None:
        annotations = _merged(annotations, pod.expected)
    return _kept(pod, annotations, pod.shown)


def corrected(pod: KeptPod, has: Allocation) -> KeptPod:
    """By the kubelet's records the pod has these cards, and no repair is under way."""
    annotations = pod.metadata.annotations or {}
    stay = {name: text for name, text in annotations.items() if name not in OURS or _stays(name, text)}
    return _kept(pod, {**encode(has), **stay}, pod.shown, pod.expected)


def differences(pod: KeptPod) -> dict[str, str | None]:
    """The annotations to write so that the API shows what counts; none while a write of ours is under way."""
    if pod.allocation is None or pod.expected is not None:
        return {}
    counts = pod.metadata.annotations or {}
    return {name: counts.get(name) for name in OURS if counts.get(name) != pod.shown.get(name)}


def shown_allocation(pod: KeptPod) -> Allocation | None:
    """The allocation that the API shows of the pod, whatever counts."""
    return read_allocation(pod, pod.shown)[0]


def _kept(pod: Pod, counts: dict[str, str], shown: Mapping[str, str], expected: Changes | None = None) -> KeptPod:
    try:
        units, containers = pod_request(pod), gpu_containers(pod)
    except GpushareError:
        units, containers = 0, ()
    try:
        keeps_rule_of_slots = names_slots(pod)
    except GpushareError:
        keeps_rule_of_slots = False
    metadata = replace(pod.metadata, annotations=counts)
    return KeptPod(
        metadata,
        pod.spec,
        pod.status,
        allocation=read_allocation(pod, counts)[0],
        units=units,
        gpu_containers=containers,
        keeps_rule_of_slots=keeps_rule_of_slots,
        # By what counts: its author may write the plugin's note, too.
        was_started=was_started(Pod(metadata, pod.spec, pod.status)),
        shown=shown,
        expected=expected,
    )


def cut_down(pod: Pod) -> Pod | None:
    """The part of a pod that is read: all that matters of one that asks for cards, else which it is; None if nothing matters."""
    if isinstance(pod, PodOutline):
        return pod
    if asks_for_cards(pod):
        return _with_limits(kept_of(_with_fewer_containers(pod)), pod)
    return None if is_finished(pod) else Pod(identity(pod))


def _with_limits(kept: Pod, pod: Pod) -> Pod:
    """With what is about limits, which this program alone reads: the annotation, ids of containers, failures of NVIDIA's hook."""
    limits = (pod.metadata.annotations or {}).get(wire.ANNOTATION_LIMITS)
    if limits is not None:
        annotations = {**(kept.metadata.annotations or {}), wire.ANNOTATION_LIMITS: limits[: LIMITS_TEXT.most + 1]}
        kept = Pod(replace(kept.metadata, annotations=annotations), kept.spec, kept.status)
    if pod.status is None or kept.status is None:
        return kept
    started, initial = map(_with_ids, (pod.status.container_statuses, pod.status.init_container_statuses))
    return Pod(
        kept.metadata, kept.spec, replace(kept.status, container_statuses=started, init_container_statuses=initial)
    )


def _with_ids(statuses: Iterable[ContainerStatus] | None) -> list[ContainerStatus] | None:
    if statuses is None:
        return None
    found = []
    for one in statuses:
        failure, at = hook_failure(one), one.container_id
        last = ContainerState(terminated=NotRunning(START_ERROR, failure)) if failure else None
        found.append(ContainerStatus(one.name, bare(one.state), last, at and at[: CONTAINER_ID.most]))
    return found


def _with_fewer_containers(pod: Pod) -> Pod:
    """A pod of too many containers with the first of those that ask for our resources.

    It is not left out, because the kubelet may give it ids: those count, and a call for another of its containers is refused.
    """
    if not CONTAINERS_OF_A_POD.exceeded(len(all_containers(pod))):
        return pod
    inits = [one for one in pod.spec.init_containers or () if _asks(one)][: CONTAINERS_OF_A_POD.most]
    others = [one for one in pod.spec.containers or () if _asks(one)][: CONTAINERS_OF_A_POD.most - len(inits)]
    return Pod(pod.metadata, replace(pod.spec, init_containers=inits, containers=others), pod.status)


def with_wishes_alone(pod: Pod) -> Pod:
    """The part of an ended pod that is remembered."""
    wishes = {
        name: text for name, text in (pod.metadata.annotations or {}).items() if name.startswith(wire.PEOPLE_PREFIX)
    }
    return Pod(replace(pod.metadata, annotations=wishes or None), pod.spec, pod.status)


def identity(pod: Pod) -> ObjectMeta:
    """Which pod it is, also by what ``static_uid`` reads; nothing else."""
    metadata = pod.metadata
    name, namespace, uid, version = metadata.name, metadata.namespace, metadata.uid, metadata.resource_version
    mirror, owner = (metadata.annotations or {}).get(MIRROR), controller_of(metadata)
    if mirror is None or owner is None:
        return ObjectMeta(name, namespace, uid, version)
    return ObjectMeta(name, namespace, uid, version, {MIRROR: mirror[: ANNOTATION_KEPT.most]}, owner_references=[owner])


def indices_of(pod: KeptPod) -> frozenset[int]:
    """Card indices that a pod names, the one that a repair marks too."""
    return frozenset(index for index, _ in pod.allocation.booked) if pod.allocation is not None else frozenset()


def indices_in_use(pods: Iterable[KeptPod]) -> frozenset[int]:
    """Card indices that any of these pods names: no other card may get one of them."""
    return frozenset(index for pod in pods for index in indices_of(pod))


def _asks(container: Container) -> bool:
    resources = container.resources
    amounts = (resources.limits, resources.requests) if resources is not None else ()
    return any(one and any(name in one for name in RESOURCES) for one in amounts)


def _stays(name: str, text: str) -> bool:
    """Is this one of our annotations that does not name a card, and makes sense?"""
    if name == wire.ANNOTATION_EXTENDER:
        return text == wire.EXTENDER_BOOK
    return name in _NUMBERS and is_number(text)


def _merged(annotations: Mapping[str, str], changes: Changes) -> dict[str, str]:
    merged = {**annotations, **changes}
    return {name: text for name, text in merged.items() if text is not None}
