"""The answers of ``explain`` and ``events``, as documents for programs: why a pod waits, or which card it has and why. Pure.

Which program, or person, gave a pod its node, and which program its card, is known as far as the API shows it. The annotations
alone do not show it: the device plugin writes the same ones on a pod that came without the extender. The extender chooses the card
before the pod is bound, and the plugin after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from gpushare import wire
from gpushare.errors import GpushareError
from gpushare.extender.core import explain as cards
from gpushare.kubectl_gpushare.core.cluster_state import ClusterState
from gpushare.kubectl_gpushare.core.node_rules import not_judged
from gpushare.kubectl_gpushare.core.pod_owners import Family
from gpushare.kubectl_gpushare.core.scheduler_objects import AskedPod, Event
from gpushare.kubectl_gpushare.core.waiting_causes import (
    Cause,
    NodeVerdict,
    causes_of_waiting,
    last_answer,
    verdicts_on,
)
from gpushare.kubectl_gpushare.core.waiting_kinds import BAD_WISH, NOT_SHARED, SLOT_MISSING
from gpushare.manifests import Pod
from gpushare.model.allocation import Allocation, read_allocation
from gpushare.model.conditions import seconds_of, time_text
from gpushare.model.limits import hook_failure, hook_text
from gpushare.model.node import Booking, NodeInfo, laid_out_with, units_on
from gpushare.model.placement import Question, find
from gpushare.model.pod import MIRROR, SCHEDULED, container_statuses, is_finished, is_lingering, was_started
from gpushare.model.waiting import DEFAULT_SCHEDULER

API_VERSION: Final = "kubectl.gpushare.aliyun.com/v1"
KIND: Final = "Explanation"
WAITING: Final = "waiting"
BOUND: Final = "bound"
ENDED: Final = "ended"
ABSENT: Final = "absent"

_EXAMPLES: Final = 3
_MOST_EVENTS: Final = 10
_OUR_EVENTS: Final = "GPUShare"
# The way in which a pod got its node, if no scheduler bound it alone.
GPUSHARE: Final = "gpushare"
ANOTHER_EXTENDER: Final = "another extender"
NODE_NAME: Final = "nodeName"
STATIC: Final = "static pod"
# By what the card was chosen, beside ANOTHER_EXTENDER. Annotations that are older than their pod were copied with its manifest.
EXTENDER: Final = "extender"
PLUGIN: Final = "device plugin"
COPIED: Final = "copied annotations"
UNKNOWN: Final = "extender or device plugin"
_NS: Final = 10**9
# Schedulers of our manifests; only of them it is certain that they ask the extender.
_ASKING: Final = (DEFAULT_SCHEDULER, "gpushare-scheduler")


def explain_pod(
    subject: AskedPod, state: ClusterState, events: Sequence[Event], *, are_whole: bool = False
) -> dict[str, Any]:
    """The document about a pod; events of other objects, and of an earlier pod of the name, are not its own.

    ``are_whole``: no event of the pod can have expired, and all could be read.
    """
    uid, name = subject.metadata.uid, subject.metadata.name
    events = [one for one in events if one.involved_object.name == name and one.involved_object.uid in (None, "", uid)]
    answer: dict[str, Any] = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "pod": {"namespace": subject.metadata.namespace, "name": name, "uid": uid},
        "hidden": list(state.hidden),
        "events": [
            {"when": one.when, "reason": one.reason, "message": one.message or "", "count": one.times}
            for one in _of_interest(events)
        ],
    }
    if is_finished(subject):
        status = subject.status
        why = ": ".join(filter(None, (status.reason, status.message))) if status else ""
        return answer | {"state": ENDED, "phase": (status.phase if status else None) or "", "why": why}
    try:
        asked = state.question_of(subject)
    except GpushareError as error:
        # Bound nevertheless: it came by another road.
        where = (
            {"state": BOUND, "node": subject.spec.node_name}
            if subject.spec.node_name
            else {"state": WAITING, "fits": [], "nodes": []}
        )
        return answer | where | {"causes": [_cause(Cause(BAD_WISH, str(error)), subject.metadata.namespace)]}
    answer["request"] = cards.describe_request(asked) | {"priority": subject.priority}
    if subject.spec.node_name:
        return answer | _bound(subject, asked, state, events, are_whole)
    return answer | _waiting(subject, asked, state, events)


def explain_owner(
    family: Family, pods: Sequence[Pod], chosen: dict[str, Any], events: Sequence[Event], hidden: Sequence[str]
) -> dict[str, Any]:
    """The document about an object that makes pods: ``chosen`` is that of one of them, {} if there is none."""
    top = family.top
    causes = [_cause(cause, top.metadata.namespace) for cause in family.causes(events)]
    head = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "owner": {
            "kind": top.kind,
            "namespace": top.metadata.namespace,
            "name": top.metadata.name,
            "uid": top.metadata.uid,
            "wanted": family.wanted,
            "there": family.there,
            "ended": top.ended.type if top.ended else "",
        },
        "pods": [
            {"name": pod.metadata.name, "state": state_of(pod), "node": pod.spec.node_name or ""}
            for pod in sorted(pods, key=lambda pod: pod.metadata.name)
        ],
    }
    state = {"state": ENDED if top.ended else ABSENT} if causes or not chosen else {}
    return {**chosen, **head, **state, "causes": causes + chosen.get("causes", []), "hidden": list(hidden)}


def event_list(events: Iterable[Event], hidden: Sequence[str]) -> dict[str, Any]:
    """The answer of ``events``: those with a reason of ours, the last one last."""
    ours = sorted((one for one in events if _is_ours(one)), key=lambda one: one.at)
    return {
        "apiVersion": API_VERSION,
        "kind": "EventList",
        "events": [
            {
                "when": one.when,
                "type": one.type or "",
                "reason": one.reason,
                "object": f"{one.involved_object.kind.lower()}/{one.involved_object.name}",
                "namespace": one.involved_object.namespace or "",
                "count": one.times,
                "message": one.message or "",
            }
            for one in ours
        ],
        "hidden": list(hidden),
    }


def state_of(pod: Pod) -> str:
    """Whether it waits, is bound, or has ended."""
    return ENDED if is_finished(pod) else BOUND if pod.spec.node_name else WAITING


def _cause(cause: Cause, namespace: str) -> dict[str, Any]:
    means, advice = cause.texts(namespace)
    described: dict[str, Any] = {"kind": cause.kind, "means": means, "do": advice}
    if cause.message:
        described["message"] = cause.message
    if cause.nodes or cause.count:
        count = len(cause.nodes) if cause.count is None else cause.count
        described |= {"nodes": count, "examples": sorted(cause.nodes)[:_EXAMPLES]}
    return described


def _of_interest(events: Sequence[Event]) -> list[Event]:
    """Ours and the scheduler's, the last first."""
    ours = (one for one in events if _is_ours(one) or one.reason == "FailedScheduling")
    return sorted(ours, key=lambda one: one.at, reverse=True)[:_MOST_EVENTS]


def _is_ours(event: Event) -> bool:
    return (event.reason or "").startswith(_OUR_EVENTS)


def _waiting(subject: AskedPod, asked: Question, state: ClusterState, events: Sequence[Event]) -> dict[str, Any]:
    causes, verdicts = causes_of_waiting(subject, verdicts_on(subject, asked, state), state, events)
    if not verdicts and state.nodes:
        causes.append(Cause(NOT_SHARED))
    reason, text = last_answer(subject, events)
    nodes, left_out = nodes_of(verdicts, asked, state, subject.priority)
    return {
        "state": WAITING,
        "scheduler": {
            "name": subject.spec.scheduler_name or "",
            "reason": reason,
            "message": text,
            "nominatedNode": (subject.status.nominated_node_name if subject.status else None) or "",
        },
        "notJudged": list(not_judged(subject)),
        "causes": [_cause(cause, subject.metadata.namespace) for cause in causes],
        "fits": [one["name"] for one in nodes if one["fits"]],
        "nodes": nodes,
        "nodesLeftOut": left_out,
    }


def nodes_of(
    verdicts: Iterable[NodeVerdict], asked: Question, state: ClusterState, priority: int
) -> tuple[list[dict[str, Any]], int]:
    """The nodes with their cards, and how many are left out; those that take the pod come first, then those with most room."""
    if not asked.request.units:
        return [], 0
    known, of_node = state.book.snapshot().nodes, {one.name: one for one in verdicts}
    rules = {name: one.rule for name, one in of_node.items()}
    names = sorted(rules, key=lambda name: (bool(rules[name]), -known[name].largest_free, name))[: cards.MOST_NODES]
    described = cards.explain(asked, state.book.snapshot(), {}, names, priority)["nodes"]
    found = [_with_verdict(one, of_node[one["name"]]) for one in described]
    return sorted(found, key=lambda one: bool(one["rule"])), len(rules) - len(names)


def _with_verdict(node: dict[str, Any], verdict: NodeVerdict) -> dict[str, Any]:
    """With the pods that kube-scheduler's sum counts behind each card that would hold the pod."""
    ended = [
        {
            "namespace": one.namespace,
            "name": one.name,
            "units": one.units(wire.RESOURCE_MEMORY),
            "priority": one.priority,
        }
        for one in verdict.ends
    ]
    shown = [card if card["reason"] or not ended else card | {"roomIfEnded": ended} for card in node["cards"]]
    return node | {"fits": node["fits"] and not verdict.rule, "rule": verdict.rule, "cards": shown}


def _bound(
    subject: AskedPod, asked: Question, state: ClusterState, events: Sequence[Event], are_whole: bool
) -> dict[str, Any]:
    name = subject.spec.node_name or ""
    allocation, _ = read_allocation(subject, subject.metadata.annotations)
    answer: dict[str, Any] = {
        "state": BOUND,
        "node": name,
        **binder_of(subject, allocation, events, are_whole=are_whole),
        # An annotation's number has 19 digits at most, which is before the year 2300.
        "boundAt": time_text(allocation.assume_time // _NS) if allocation and allocation.assume_time else "",
        "started": was_started(subject),
        "lingers": is_lingering(subject),
        "problem": state.problems.get(subject.metadata.uid) or _hook_problem(subject),
    }
    if not asked.request.units and not asked.request.names_slots:
        answer["causes"] = [_cause(Cause(SLOT_MISSING), subject.metadata.namespace)]
    info, confirmed = state.book.snapshot().nodes.get(name), state.book.confirmed(subject.metadata.uid)
    if info is None or confirmed is None:
        return answer | {"cards": []}
    return answer | _on_cards(confirmed[1], info, asked)


def _hook_problem(pod: Pod) -> str:
    """A container that NVIDIA's hook keeps from starting."""
    failures = ((one.name, hook_failure(one)) for one in container_statuses(pod))
    return next((hook_text(name, failure) for name, failure in failures if failure), "")


def _on_cards(booking: Booking, info: NodeInfo, asked: Question) -> dict[str, Any]:
    """Each card of the node as it would be without the pod, and the card that the policy would choose now."""
    others = [one for one in info.bookings if one.uid != booking.uid]
    without = laid_out_with(info, others)
    chosen = find(without, asked)
    return {
        "cards": [
            {
                "id": device.index,
                "uuid": device.uuid,
                "model": device.model,
                "total": device.total,
                "held": units_on(booking, device.index),
                "freeWithoutIt": device.free,
                "reason": cards.card_reason(device, without, asked),
                "sharedWith": [
                    {"namespace": one.namespace, "name": one.name, "units": units_on(one, device.index)}
                    for one in sorted(others, key=lambda one: (one.namespace, one.name))
                    if units_on(one, device.index)
                ],
            }
            for device in without.devices
        ],
        "policyWouldChoose": [] if isinstance(chosen, str) else [index for index, _ in chosen],
    }


def binder_of(
    subject: AskedPod, allocation: Allocation | None, events: Sequence[Event], *, are_whole: bool = False
) -> dict[str, str]:
    """``boundBy``; ``scheduler``, by its event, else by the pod's spec, "" if none was asked; ``cardBy``, "" without a card.

    ``are_whole``: none of the pod's events can have expired, and all could be read.
    """
    event = max((one for one in events if one.reason == "Scheduled"), key=lambda one: one.at, default=None)
    by_person = "" if event else _by_person(subject, are_whole=are_whole)
    scheduler = "" if by_person else (event.writer if event else "") or subject.spec.scheduler_name or ""
    card = _card_by(subject, allocation, event, is_asked=not by_person)
    by_extender = {EXTENDER: GPUSHARE, ANOTHER_EXTENDER: ANOTHER_EXTENDER}
    return {"boundBy": by_extender.get(card, by_person or scheduler), "scheduler": scheduler, "cardBy": card}


def _card_by(subject: AskedPod, allocation: Allocation | None, event: Event | None, *, is_asked: bool) -> str:
    is_ours = (subject.metadata.annotations or {}).get(wire.ANNOTATION_EXTENDER) == wire.EXTENDER_BOOK
    if allocation is None:
        return EXTENDER if is_ours and is_asked else ""
    chosen, created = allocation.assume_time / _NS, seconds_of(subject.metadata.creation_timestamp)
    if created is not None and chosen < created:
        return COPIED
    if not is_ours:
        return ANOTHER_EXTENDER
    was_before = _was_before(chosen, subject, event) if is_asked else False
    if was_before is None:
        return EXTENDER if (subject.spec.scheduler_name or DEFAULT_SCHEDULER) in _ASKING else UNKNOWN
    return EXTENDER if was_before else PLUGIN


def _by_person(subject: AskedPod, *, are_whole: bool) -> str:
    """How a pod without a scheduler's event came to its node; "" if that is not known. kube-scheduler always writes one."""
    if MIRROR in (subject.metadata.annotations or {}):
        return STATIC
    by_default = (subject.spec.scheduler_name or DEFAULT_SCHEDULER) == DEFAULT_SCHEDULER
    return NODE_NAME if are_whole and by_default else ""


def _was_before(chosen: float, subject: AskedPod, event: Event | None) -> bool | None:
    """Was the card chosen before the pod was bound? None if both were in one second, or if a time is not known."""
    if event is not None and (exact := seconds_of(event.event_time)) is not None:
        return chosen <= exact
    conditions = (subject.status.conditions if subject.status else None) or ()
    times = (
        seconds_of(one.last_transition_time) for one in conditions if one.type == SCHEDULED and one.status == "True"
    )
    at = next(times, None)
    return None if at is None or int(chosen) == int(at) else chosen < at
