"""The request of a pod, whether its memory is still in use, and how much of the pod stays in memory. Pure.

The API takes pods of more than a megabyte, with 256 KiB of annotations among it, and the author of a pod decides what is
in them. Both programs keep many pods at once, so they keep ``kept_of(pod)``. Every reader in ``model`` gives the same
answer for it as for the whole pod, the same refusal included: a text that is too large is cut one character behind its bound.
(``eviction`` reads more, but only of a pod that has just come.)
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from gpushare import wire
from gpushare.bounds import (
    ALLOCATION_CHARACTERS,
    ANNOTATION_KEPT,
    MESSAGE_KEPT,
    QUANTITY_TEXT,
    SCHEDULER_TEXT_KEPT,
    WISH_CHARACTERS,
    Bound,
)
from gpushare.errors import InvalidWishError
from gpushare.foreign import Decoder
from gpushare.manifests import (
    Container,
    ContainerState,
    ContainerStatus,
    NotRunning,
    ObjectMeta,
    OwnerReference,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
    Resources,
)
from gpushare.model.quantity import parse_milli, parse_units
from gpushare.model.wishes import NONE, Wishes, unknown_wish, wishes_of

_SIDECAR: Final = "Always"
_FINISHED: Final = ("Succeeded", "Failed")
# The condition by which a scheduler reports; its status is False or Unknown while the pod has no node.
SCHEDULED: Final = "PodScheduled"

Amount = str | int | float
T = TypeVar("T")

# Equal texts up to this number of characters, and equal lists up to this size of JSON, are in memory once.
_SHORT: Final = 5
_LONGEST_SHARED: Final = 1024
_CONTAINERS: Final = functools.lru_cache(maxsize=1024)(Decoder(list[Container]).decode)
_STATUSES: Final = functools.lru_cache(maxsize=1024)(Decoder(list[ContainerStatus]).decode)

# On the API's copy of a static pod: the uid that the kubelet itself uses for it. Any author may write it (``static_uid``).
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
    **dict.fromkeys((*OURS, MIRROR), ANNOTATION_KEPT),
    **dict.fromkeys(wire.WISHES, WISH_CHARACTERS),
    wire.ANNOTATION_ALLOCATION: ALLOCATION_CHARACTERS,
}
_RESOURCES: Final = frozenset({wire.RESOURCE_MEMORY, wire.RESOURCE_COUNT, wire.RESOURCE_SLOT, "cpu"})


def container_request(container: Container) -> int:
    """Units that one container asks for; the limit, as Kubernetes wants limit and request of such a resource equal.

    Raises InvalidQuantityError for ``1.5`` or ``-1``.
    """
    resources = container.resources or Resources()
    for amounts in (resources.limits, resources.requests):
        if amounts and wire.RESOURCE_MEMORY in amounts:
            return parse_units(amounts[wire.RESOURCE_MEMORY])
    return 0


def is_sidecar(container: Container) -> bool:
    """Is this init container one that goes on running beside the others (KEP-753)?"""
    return container.restart_policy == _SIDECAR


def pod_request(pod: Pod) -> int:
    """Units that the pod holds at its worst moment: the scheduler's own rule for requests. Raises InvalidQuantityError."""
    return worst_moment(pod, container_request)


def cpu_request(pod: Pod) -> int:
    """Milli-CPUs that the pod asks for at its worst moment; what is no quantity counts as nothing."""
    return worst_moment(pod, _cpu_of)


def _cpu_of(container: Container) -> int:
    amounts = (container.resources.requests if container.resources else None) or {}
    return parse_milli(amounts.get("cpu", 0))


def slot_request(pod: Pod) -> int:
    """Slots that the pod holds at its worst moment: one for each container that asks for card memory.

    An ordinary init container's slot goes to a container after it, as the kubelet hands its ids on. Raises
    InvalidQuantityError.
    """
    return worst_moment(pod, lambda container: int(container_request(container) > 0))


def worst_moment(pod: Pod, amount_of: Callable[[Container], int]) -> int:
    """The most that a pod holds of something at any moment of its life.

    Ordinary init containers run one after the other, each beside the sidecars started before it; then all
    containers run beside all sidecars.
    """
    sidecars = 0
    worst = 0
    for container in pod.spec.init_containers or ():
        amount = amount_of(container)
        if is_sidecar(container):
            sidecars += amount
            worst = max(worst, sidecars)
        else:
            worst = max(worst, sidecars + amount)
    return max(worst, sidecars + sum(amount_of(container) for container in pod.spec.containers or ()))


def names_card_resources(pod: Pod) -> bool:
    """Does a container name one of our resources, be it with the quantity 0? That makes a scheduler ask an extender."""
    asked = ((one.resources.limits, one.resources.requests) for one in all_containers(pod) if one.resources)
    return any(name.startswith(wire.RESOURCE_PREFIX) for pair in asked for amounts in pair for name in amounts or ())


def all_containers(pod: Pod) -> tuple[Container, ...]:
    """In a kubelet's order of allocation: init first."""
    return (*(pod.spec.init_containers or ()), *(pod.spec.containers or ()))


class Request(NamedTuple):
    """A pod's request of one card: units of its memory, slots if the node counts containers, and its wishes for a card.

    ``names_slots``: each container that asks for memory also asks for exactly one ``gpu-slot``, and no other container does.
    Without its slot a kubelet in slots mode would start the container without a variable of ours, and it would see every card.
    """

    units: int
    slots: int = 1
    names_slots: bool = True
    wishes: Wishes = NONE


def request_of(pod: Pod) -> Request:
    """The request of a pod. Raises InvalidQuantityError, and InvalidWishError for wishes that make no sense."""
    containers = pod.spec.containers or ()
    if len(containers) == 1 and not pod.spec.init_containers:
        # Nearly every pod has one container, and a scheduler waits for this answer.
        units, slots = container_request(containers[0]), 1
    else:
        units, slots = pod_request(pod), slot_request(pod)
    is_slotted = names_slots(pod)
    if units == 0:
        return Request(0, 0, is_slotted)
    wishes = wishes_of(pod)
    if wishes.split and (sum(wishes.split) != units or split_container(pod) is None):
        raise InvalidWishError(f"annotation {wire.WISH_SPLIT} is not what the pod's one container asks for, in parts")
    return Request(units, slots, is_slotted, wishes)


def names_slots(pod: Pod) -> bool:
    """The rule of slots (``Request``). The limits are what a kubelet allocates. Raises InvalidQuantityError."""
    limits = (((one.resources.limits if one.resources else None) or {}, one) for one in all_containers(pod))
    return all(
        parse_units(amounts.get(wire.RESOURCE_SLOT, 0)) == (1 if container_request(one) else 0)
        for amounts, one in limits
    )


def gpu_containers(pod: Pod) -> tuple[tuple[str, int], ...]:
    """``(name, units)`` of the containers that ask for card memory, in a kubelet's order of allocation."""
    requests = ((container.name, container_request(container)) for container in all_containers(pod))
    return tuple((name, request) for name, request in requests if request > 0)


def split_container(pod: Pod) -> int | None:
    """The position of the one container that asks for card memory; None if several do, or an init container."""
    asking = [at for at, container in enumerate(pod.spec.containers or ()) if container_request(container)]
    return asking[0] if len(asking) == 1 == len(gpu_containers(pod)) else None


def is_finished(pod: Pod) -> bool:
    """Has the pod ended with all its containers gone, so that its memory is free?

    A phase alone is not enough (``is_lingering``). A pod that is being deleted is not finished: its containers use the card until
    the kubelet has stopped them (defect D15 of the original).
    """
    return ends_by_phase(pod) and (
        wire.ANNOTATION_ENDED in (pod.metadata.annotations or {})
        or not any(one.state is not None and one.state.running is not None for one in container_statuses(pod))
    )


def is_lingering(pod: Pod) -> bool:
    """Has the pod ended by its phase, while its status still shows running containers?

    Older kubelets write ``Failed`` at an eviction before the processes end. After the shutdown of a node the status may show them
    for ever (kubernetes/kubernetes#98012), so the next boot of the node ends such a pod for certain.
    """
    return ends_by_phase(pod) and not is_finished(pod)


def ends_by_phase(pod: Pod) -> bool:
    """Has the pod ended by its phase? Containers of it may still run (``is_lingering``)."""
    return pod.status is not None and pod.status.phase in _FINISHED


def container_statuses(pod: Pod) -> list[ContainerStatus]:
    """The kubelet's reports on the containers, init containers among them."""
    status = pod.status or PodStatus()
    return [*(status.container_statuses or ()), *(status.init_container_statuses or ())]


def is_deleting(pod: Pod) -> bool:
    """Is the pod's deletion under way?"""
    return pod.metadata.deletion_timestamp is not None


def was_started(pod: Pod) -> bool:
    """Has a container of the pod been let onto its card before, by the device plugin's note or the kubelet's status?

    The note alone is not enough: it is copied with a pod's manifest. A kubelet that admitted the pod reports its containers.
    """
    return (pod.status or PodStatus()).phase == "Running" or (is_assigned(pod) and bool(container_statuses(pod)))


def is_assigned(pod: Pod) -> bool:
    """Does the device plugin's note say that it has let the pod onto its card?"""
    return (pod.metadata.annotations or {}).get(wire.ANNOTATION_ASSIGNED) == "true"


def controller_of(metadata: ObjectMeta) -> OwnerReference | None:
    """The owner that replaces the pod when it is gone."""
    return next((owner for owner in metadata.owner_references or () if owner.controller), None)


def static_uid(metadata: ObjectMeta, node: ObjectMeta) -> str | None:
    """The uid of a static pod in the records and control groups of its kubelet; None if it is no static pod of this node.

    The annotation alone proves nothing. A kubelet makes its Node the owner of the copy (kubernetes, ``CreateMirrorPod``).
    """
    owner = controller_of(metadata)
    is_of_node = owner is not None and (owner.kind, owner.name, owner.uid) == ("Node", node.name, node.uid)
    return (metadata.annotations or {}).get(MIRROR) if is_of_node else None


def kept_of(pod: Pod) -> Pod:
    """The pod without the annotations, labels and fields that none of our programs reads later."""
    metadata, spec, status = pod.metadata, pod.spec, pod.status
    kept = PodSpec(
        node_name=spec.node_name,
        scheduler_name=None if spec.scheduler_name is None else spec.scheduler_name[: SCHEDULER_TEXT_KEPT.most],
        scheduling_gates=spec.scheduling_gates and spec.scheduling_gates[:1],
        containers=_shared(_containers(spec.containers), _CONTAINERS),
        init_containers=_shared(_containers(spec.init_containers), _CONTAINERS),
        priority=spec.priority,
    )
    if status is not None:
        message = None if status.message is None else status.message[: MESSAGE_KEPT.most]
        started, initial = (
            _shared(_statuses(one), _STATUSES) for one in (status.container_statuses, status.init_container_statuses)
        )
        status = replace(
            status,
            message=message,
            conditions=_kept_report(status),
            container_statuses=started,
            init_container_statuses=initial,
        )
    controller = controller_of(metadata)
    owners = None if controller is None else [controller]
    annotations = _annotations(metadata.annotations or {})
    return Pod(replace(metadata, annotations=annotations, labels=None, owner_references=owners), kept, status)


def _shared(found: T | None, value_of: Callable[[bytes], T]) -> T | None:
    """One value for all equal ones, unless they are large: the pods of one template differ in little."""
    text = None if found is None else msgspec.json.encode(found)
    return found if text is None or len(text) > _LONGEST_SHARED else value_of(text)


def scheduler_report(status: PodStatus | None) -> PodCondition | None:
    """A scheduler's last report on a pod without a node; None if there is none."""
    conditions = (status.conditions if status is not None else None) or ()
    return next((one for one in conditions if one.type == SCHEDULED and one.status != "True"), None)


def _kept_report(status: PodStatus) -> list[PodCondition] | None:
    report = scheduler_report(status)
    if report is None:
        return None
    reason, message = ((text or "")[: SCHEDULER_TEXT_KEPT.most] for text in (report.reason, report.message))
    return [PodCondition(SCHEDULED, "False", reason, message)]


def _annotations(annotations: Mapping[str, str]) -> dict[str, str] | None:
    kept = {name: _cut(annotations[name], bound) for name, bound in _BOUNDS.items() if name in annotations}
    unknown = unknown_wish(annotations)
    return (kept | {unknown: ""} if unknown else kept) or None


def _cut(text: str, bound: Bound) -> str:
    """One character behind its bound; one value for all equal ones that are as short as a number of units."""
    return sys.intern(text) if len(text) <= _SHORT else text[: bound.most + 1]


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


def _statuses(statuses: Iterable[ContainerStatus] | None) -> list[ContainerStatus] | None:
    """Without what differs from pod to pod: ids and messages."""
    return None if statuses is None else [ContainerStatus(one.name, bare(one.state)) for one in statuses]


def bare(state: ContainerState | None) -> ContainerState | None:
    """Which state it is, without reason and message."""
    if state is None:
        return None
    return ContainerState(state.running, state.waiting and NotRunning(), state.terminated and NotRunning())


def _amounts(amounts: Mapping[str, Amount] | None) -> dict[str, Amount] | None:
    """Ours, and the first of another plugin's, which shows that there is one."""
    amounts = amounts or {}
    other = next((name for name in amounts if "/" in name and name not in _RESOURCES), "")
    kept = {name: amounts[name] for name in (*_RESOURCES, other) if name in amounts}
    return {
        name: amount[: QUANTITY_TEXT.most + 1] if isinstance(amount, str) else amount for name, amount in kept.items()
    } or None
