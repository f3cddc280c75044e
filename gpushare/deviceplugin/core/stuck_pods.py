"""Pods that the kubelet turned away for a reason that has passed, and whether they may be deleted. Pure.

A pod that is bound while the kubelet or the plugin starts is turned away for good: phase Failed, reason
``UnexpectedAdmissionError`` ("no healthy devices present", "unregistered device", "endpoint … has been stopped", our own
refusal) or ``OutOfaliyun.com/gpu-mem``. No kubelet tries such a pod again. The same fate has a pod whose container is held
for good. Once the plugin serves again and a card has room for the pod beside all that is on it, the pod is *stuck*: it only
stands in the way of a new one. A pod with a wish that the node cannot grant is not stuck: the same would happen to a new one.
While the cards are full it is not stuck either, but a pod that nothing replaces is reported with the advice that helps.

Deleting it lets its controller make that new one, which the scheduler places afresh. Never deleted are a pod without a
controller (nothing would replace it), a pod of a Job (the Job replaces a failed pod, and counts it; on control
planes that count pods without a finalizer, a deleted failure is a forgotten one, and a Job that should give up would go
on), and a static pod's mirror (its file makes it, not the API).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from gpushare.deviceplugin.core.kept_pods import RESOURCES
from gpushare.errors import GpushareError
from gpushare.manifests import ObjectMeta, OwnerReference, Pod
from gpushare.model.node import NodeInfo
from gpushare.model.placement import CURABLE, Snapshot, question, reason_against
from gpushare.model.pod import all_containers, controller_of, is_deleting, is_finished, request_of

_ADMISSION: Final = "UnexpectedAdmissionError"
_SHORT: Final = tuple(f"OutOf{resource}" for resource in RESOURCES)
# This much of a kubelet's message is repeated.
_LONGEST: Final = 300


@dataclass(frozen=True, slots=True)
class StuckPod:
    """A pod that can never run: why, and why it must not be deleted ("" if it may be).

    ``no_room`` is the reason for which a pod like it would be refused now, "" if a card has room for it.
    """

    metadata: ObjectMeta
    cause: str
    keep_because: str
    owner: str = ""
    no_room: str = ""


def stuck_pods(pods: Iterable[Pod], without: Callable[[str], NodeInfo], held: Mapping[str, str]) -> list[StuckPod]:
    """The stuck pods of a node whose plugin serves its cards, and those without a controller that are refused for lack of room.

    ``without`` gives the node as it is now, but for the pod of a uid. ``held`` are pods, by uid, with a container that may never
    start, and the reason.
    """
    found = []
    for pod in pods:
        if is_deleting(pod) or not (cause := _cause(pod, held)):
            continue
        against, owner = _against(pod, without), controller_of(pod.metadata)
        if not against or (against in CURABLE and owner is None):
            found.append(StuckPod(pod.metadata, cause, _keep_because(owner), name_of(owner), against))
    return found


def _against(pod: Pod, without: Callable[[str], NodeInfo]) -> str:
    """Why a new pod like this one would get no card of the node now, by the extender's rules; "" if it would."""
    try:
        request = request_of(pod)
    except GpushareError as error:
        return str(error)
    if not request.units:
        return "it asks for no card"
    node = without("" if is_finished(pod) else pod.metadata.uid)
    return reason_against(node, question(request, Snapshot({node.name: node})))


def _cause(pod: Pod, held: Mapping[str, str]) -> str:
    """Why it is stuck, or "" if it is not, or for another's reason."""
    if pod.metadata.uid in held and not is_finished(pod):
        return held[pod.metadata.uid][:_LONGEST]
    status = pod.status
    if status is None or status.phase != "Failed" or not is_finished(pod):
        return ""
    message = status.message or ""
    is_ours = status.reason in _SHORT or (status.reason == _ADMISSION and _is_about_us(pod, message))
    return f"{status.reason}: {message}"[:_LONGEST] if is_ours else ""


def _is_about_us(pod: Pod, message: str) -> bool:
    """Does the message name our resource, or none while the pod asks for no other plugin's?

    What a plugin answered ("rpc error: …") does not say which plugin that was.
    """
    limits = (one.resources.limits if one.resources else None for one in all_containers(pod))
    asks_for_others = any("/" in resource and resource not in RESOURCES for one in limits for resource in one or ())
    return any(resource in message for resource in RESOURCES) or not asks_for_others


def name_of(owner: OwnerReference | None) -> str:
    """An owner, for people; "" for none."""
    return f"{owner.kind} {owner.name}" if owner is not None else ""


def _keep_because(owner: OwnerReference | None) -> str:
    if owner is not None and owner.kind == "Job":
        return "its Job replaces failed pods by itself and counts them"
    return no_successor(owner)


def no_successor(owner: OwnerReference | None) -> str:
    """Why no controller would replace the pod through the API; "" if one would."""
    if owner is None:
        return "no controller would replace it"
    if owner.kind == "Node":
        return "it is a static pod: its file makes it, not the API"
    return ""
