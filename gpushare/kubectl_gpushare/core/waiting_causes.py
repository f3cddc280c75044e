"""Why a pod has no node, by the kinds of waiting. Pure.

The last answer of the pod's scheduler is never overruled: a node that it excludes by a rule that is not judged here has no room. A
node counts under one kind by what keeps the pod from it first: kube-scheduler's own filters, then the cards. Unhealthy cards, and
pods that kube-scheduler could preempt and does not, count in addition.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from gpushare import wire
from gpushare.extender.core.explain import room_if_ended, wanted_of, why_no_preemption
from gpushare.kubectl_gpushare.core import node_rules
from gpushare.kubectl_gpushare.core import waiting_kinds as kinds
from gpushare.kubectl_gpushare.core.cluster_state import ClusterState
from gpushare.kubectl_gpushare.core.node_rules import OURS, CountedPod
from gpushare.kubectl_gpushare.core.scheduler_objects import AskedPod, Event, ScheduledNode
from gpushare.kubectl_gpushare.core.waiting_kinds import CARDS, Answer, Reason, answer_in
from gpushare.model.node import NodeInfo, described_cards, is_unoffered
from gpushare.model.placement import CURABLE, Question, reason_against
from gpushare.model.pod import scheduler_report
from gpushare.model.waiting import DEFAULT_SCHEDULER

_BY_REASON: Final = {
    wire.REASON_NO_SLOT: kinds.NO_SLOT,
    wire.REASON_NO_CARDS_FOR_SPLIT: kinds.FULL,
    wire.REASON_ALL_CARDS_UNHEALTHY: kinds.UNHEALTHY,
    wire.REASON_NO_SUCH_CARD: kinds.NO_SUCH_CARD,
    wire.REASON_CARDS_UNSAID: kinds.NO_SUCH_CARD,
    wire.REASON_OTHER_CARD: kinds.GROUP_ELSEWHERE,
    wire.REASON_SLOT_MISSING: kinds.SLOT_MISSING,
    wire.REASON_NO_CARD_LARGE_ENOUGH: kinds.TOO_SMALL,
    wire.REASON_NO_WHOLE_CARD: kinds.TOO_SMALL,
    wire.REASON_TOO_FEW_CARDS: kinds.TOO_SMALL,
    wire.REASON_TOO_MANY_CONTAINERS: kinds.TOO_SMALL,
}
_OF_CARDS: Final = (wire.RESOURCE_MEMORY, wire.RESOURCE_SLOT)
_MOST_MESSAGES: Final = 3
# One family: which of them a scheduler names first is another in each of its versions.
_TAINTS: Final = (kinds.TAINT, kinds.NODE_STATE, kinds.CORDONED)
_SEVERAL: Final = "the scheduler excludes it by one of its reasons"
_FAILED: Final = "FailedScheduling"
_JUDGED: Final = (*_TAINTS, kinds.NODE_SELECTOR, kinds.RESOURCES)
_ORDER: Final = {kind: at for at, kind in enumerate(kinds.KINDS)}
# kube-scheduler's words for a call of an extender that failed, and the extender's own while it starts.
_FAILED_CALL: Final = re.compile(
    rf'Post "[^"]*{wire.PATH_PREFIX}/|with extender at URL|extender has not read the cluster'
)


@dataclass(frozen=True, slots=True)
class Cause:
    """One kind of waiting; ``message`` is another program's text about it, ``nodes`` those on which it is so.

    ``count`` is their number if not all of them are known by name.
    """

    kind: str
    message: str = ""
    nodes: tuple[str, ...] = ()
    count: int | None = None

    def texts(self, namespace: str) -> tuple[str, str]:
        """Its meaning, and what ends it, with a command for this node and namespace."""
        means, advice = kinds.KINDS[self.kind]
        node = min(self.nodes, default="NODE")
        return means, advice.replace("NODE", node).replace("NAMESPACE", namespace or "NAMESPACE")


@dataclass(frozen=True, slots=True)
class NodeVerdict:
    """One node's answer: ``rule`` is kube-scheduler's reason, empty if it has none.

    ``kinds`` are the kinds of waiting that it counts under, with a text about each. ``ends`` are the pods whose end makes room in
    kube-scheduler's sum.
    """

    name: str
    rule: str
    kinds: tuple[tuple[str, str], ...]
    ends: tuple[CountedPod, ...] = ()


def verdicts_on(subject: AskedPod, asked: Question, state: ClusterState) -> list[NodeVerdict]:
    """The answer of each node that has shared cards, or had them until its device plugin ended."""
    wanted = node_rules.amounts_of(subject)
    beside_cards = {name: amount for name, amount in wanted.items() if name not in _OF_CARDS}
    found: list[NodeVerdict] = []
    for name, info in state.book.snapshot().nodes.items():
        node = state.nodes[name]
        unoffered = is_unoffered(node)
        if not info.devices and not info.published.refusal and not unoffered:
            continue
        reason = reason_against(info, asked) if asked.request.units else _of_slot_alone(info, asked)
        if rule := node_rules.rule_against(node, subject):
            states = node_rules.states_against(node, subject)
            found.append(NodeVerdict(name, rule, tuple(_of_rule(rule, states))))
            continue
        # The sum over its cards is a worse reason than the cards themselves, except if the kubelet offers none of them.
        counted = wanted if unoffered or not reason else beside_cards
        if short := node_rules.short_of(state.free_on(name), counted):
            found.append(_of_sum(info, short, asked, counted, state, is_unoffered=unoffered))
        elif reason == wire.REASON_UNREADABLE_POD:
            pods = (one.warning for one in state.unreadable if one.spec.node_name == name)
            found.append(NodeVerdict(name, "", tuple((kinds.UNREADABLE_POD, text) for text in pods)))
        else:
            found.append(NodeVerdict(name, "", tuple(_of_cards(info, asked, reason, node, subject.priority))))
    return found


def _of_slot_alone(info: NodeInfo, asked: Question) -> str:
    """The extender's reason against a pod that asks for no memory."""
    return wire.REASON_SLOT_MISSING if info.counts_slots and not asked.request.names_slots else ""


def _of_rule(rule: str, states: Sequence[str]) -> Iterator[tuple[str, str]]:
    """``states`` are the node's own conditions that keep the pod away: each is a reason beside the rule."""
    yield from ((kinds.NODE_STATE, text) for text in states)
    kind = Reason(rule, None).kind
    if not (states and kind == kinds.NODE_STATE):
        yield kind, rule


def _of_sum(
    info: NodeInfo, short: str, asked: Question, wanted: node_rules.Amounts, state: ClusterState, *, is_unoffered: bool
) -> NodeVerdict:
    """``short`` is what kube-scheduler's sum of the node has too little of, in its words."""
    found: dict[tuple[str, str], None] = {}
    ends: list[Sequence[CountedPod]] = []
    for part in short.split(", "):
        resource = part.removeprefix(node_rules.SHORT)
        if resource not in OURS:
            found[kinds.RESOURCES, part] = None
        elif is_unoffered:
            found[kinds.NOT_OFFERED, part] = None
        elif resource == wire.RESOURCE_SLOT and not asked.request.names_slots:
            found[kinds.SLOT_MISSING, part] = None
        elif not state.offers(info.name, resource):
            found[kinds.RESOURCES, part] = None
        else:
            text, ending = state.shortage_on(info.name, resource, wanted)
            found[kinds.IN_SUM, text] = None
            ends.append(ending)
    together = {one.uid: one for each in ends for one in each} if all(ends) else {}
    return NodeVerdict(info.name, short, tuple(found), tuple(together.values()))


def _of_cards(
    info: NodeInfo, asked: Question, reason: str, node: ScheduledNode, priority: int
) -> Iterator[tuple[str, str]]:
    if not reason:
        yield kinds.HAS_ROOM, ""
        return
    kind, units = _kind_of(info, asked, reason), wanted_of(asked.request)
    unhealthy = (
        [] if info.published.refusal or not asked.request.units else list(_unhealthy_cards(info, asked, units, node))
    )
    if kind != kinds.UNHEALTHY or not unhealthy:
        yield kind, reason
    yield from ((kinds.UNHEALTHY, text) for text in unhealthy)
    if reason in CURABLE and _is_not_preempted(info, asked, units, priority):
        yield kinds.NO_PREEMPTION, ""


def _kind_of(info: NodeInfo, asked: Question, reason: str) -> str:
    if reason != wire.REASON_NO_CARD_FITS:
        return _BY_REASON.get(reason, kinds.OTHER)
    if asked.group_cards:
        return kinds.GROUP_FULL
    free = sum(device.free for device in info.devices if asked.wishes_for(device))
    return kinds.FRAGMENTED if free >= asked.request.units else kinds.FULL


def _unhealthy_cards(info: NodeInfo, asked: Question, units: int, node: ScheduledNode) -> Iterator[str]:
    """The cards that would hold the pod if they were healthy, and why each is not."""
    cards, _ = described_cards(node)
    why = {card.index: card.reason for card in (cards.cards if cards else ())}
    for device in info.devices:
        is_one = asked.wishes_for(device) and (
            not asked.group_cards or device.index in asked.group_cards.get(info.name, ())
        )
        if is_one and not device.healthy and device.total - device.used >= units:
            yield f"node {info.name}: card {device.index}: {why.get(device.index) or 'declared unhealthy'}"


def _is_not_preempted(info: NodeInfo, asked: Question, units: int, priority: int) -> bool:
    cards = [device for device in info.devices if device.healthy and device.total >= units and asked.wishes_for(device)]
    ended = (room_if_ended(device, info, units, asked.request.slots) for device in cards)
    return bool(why_no_preemption(info, asked.request.units, priority, ended))


def by_kind(verdicts: Iterable[NodeVerdict]) -> list[Cause]:
    """The kinds of all nodes, in the order in which they are shown."""
    nodes: defaultdict[str, dict[str, None]] = defaultdict(dict)
    messages: defaultdict[str, set[str]] = defaultdict(set)
    for verdict in verdicts:
        for kind, message in verdict.kinds:
            nodes[kind][verdict.name] = None
            messages[kind].add(message)
    return [
        Cause(kind, "; ".join(sorted(messages[kind])[:_MOST_MESSAGES]), tuple(nodes[kind]))
        for kind in kinds.KINDS
        if kind in nodes
    ]


def last_answer(pod: AskedPod, events: Sequence[Event]) -> tuple[str, str]:
    """The scheduler's last reason and text about the pod: its condition, else its last event; empty if it reported nothing."""
    if (report := scheduler_report(pod.status)) is not None:
        return report.reason or "", report.message or ""
    failed = [event for event in events if event.reason == _FAILED]
    last = max(failed, key=lambda event: event.at, default=None)
    return ("", "") if last is None else (_FAILED, last.message or "")


def causes_of_waiting(
    subject: AskedPod, verdicts: Sequence[NodeVerdict], state: ClusterState, events: Sequence[Event]
) -> tuple[list[Cause], list[NodeVerdict]]:
    """Why the pod waits, and the answers of the nodes without those that the scheduler's last answer contradicts."""
    reason, text = last_answer(subject, events)
    if subject.spec.scheduling_gates:
        gates = ", ".join(one.name for one in subject.spec.scheduling_gates)
        return [Cause(kinds.GATED, gates), *_without_room(verdicts)], list(verdicts)
    if _FAILED_CALL.search(text):
        return [Cause(kinds.EXTENDER_AWAY, text), *_without_room(verdicts)], list(verdicts)
    if not reason:
        return [_held_back(subject), *_without_room(verdicts)], list(verdicts)
    answer = answer_in(text)
    named = _families(subject, verdicts, state)
    roomy = [one for one in verdicts if _node_has_room(one)]
    room = (
        min(len(roomy), _newer_room(answer, named, len(state.nodes))) if answer.reasons or answer.nodes else len(roomy)
    )
    left = list(_left(answer, named, is_contradicted=room < len(roomy)))
    if not room:
        if len(left) == 1 and left[0].count == len(roomy):
            left = [replace(left[0], nodes=tuple(one.name for one in roomy), count=None)]
        rule = left[0].message if len(left) == 1 else _SEVERAL
        verdicts = [replace(one, rule=rule, kinds=()) if _node_has_room(one) else one for one in verdicts]
    causes = [*left, *by_kind(verdicts)]
    if room < len(roomy):
        causes = [replace(one, count=room) if one.kind == kinds.HAS_ROOM else one for one in causes]
    return sorted(causes, key=lambda one: _ORDER[one.kind]), list(verdicts)


def _held_back(pod: AskedPod) -> Cause:
    """Why there is no report: kube-scheduler reports nothing on a pod before its claims and its group are there (PreEnqueue)."""
    if claims := pod.spec.resource_claims:
        return Cause(
            kinds.CLAIMS,
            f"no scheduler has reported on the pod yet; its claims: {', '.join(one.name for one in claims)}",
        )
    if pod.spec.scheduling_group is not None:
        return Cause(kinds.SCHEDULER, "no scheduler has reported on the pod yet; it waits for the pods of its group")
    return Cause(kinds.NOT_ASKED, f"schedulerName: {pod.spec.scheduler_name or DEFAULT_SCHEDULER}")


def _node_has_room(verdict: NodeVerdict) -> bool:
    return verdict.kinds == ((kinds.HAS_ROOM, ""),)


def _without_room(verdicts: Sequence[NodeVerdict]) -> list[Cause]:
    """Nothing is gained by waiting until a scheduler asks again."""
    return [cause for cause in by_kind(verdicts) if cause.kind != kinds.HAS_ROOM]


def _families(subject: AskedPod, verdicts: Sequence[NodeVerdict], state: ClusterState) -> Counter[str]:
    """How many nodes are excluded by each rule as it is judged here, those without shared cards too."""
    rules = {one.name: one.rule or ("" if _node_has_room(one) else CARDS) for one in verdicts}
    wanted = node_rules.amounts_of(subject)
    found: Counter[str] = Counter()
    for name, node in state.nodes.items():
        if name not in rules:
            rules[name] = node_rules.rule_against(node, subject) or node_rules.short_of(state.free_on(name), wanted)
        found.update(_family(part) for part in rules[name].split(", ") if part)
    return found


def _family(text: str) -> str:
    kind = CARDS if text == CARDS else Reason(text, None).kind
    return text if kind == kinds.RESOURCES else kinds.TAINT if kind in _TAINTS else kind


def _newer_room(answer: Answer, named: Counter[str], nodes: int) -> int:
    """How many nodes may have got room since the answer: it was about their cards, or it did not know or look at them."""
    of_cards = sum(one.nodes or 0 for one in answer.reasons if one.kind == CARDS)
    new = max(nodes - answer.nodes, 0) if answer.nodes else 0
    return max(of_cards - named[CARDS], 0) + new + answer.unnamed


def _left(answer: Answer, named: Counter[str], *, is_contradicted: bool) -> Iterator[Cause]:
    """The scheduler's reasons that nothing here accounts for; those that are judged here only if room was found against them."""
    judged = Counter(named)
    for one in answer.reasons:
        if one.kind == CARDS:
            continue
        if one.nodes is None:
            yield Cause(one.kind, one.text)
            continue
        family = _family(one.text)
        count = one.nodes - min(one.nodes, judged[family])
        judged[family] -= one.nodes - count
        if count and (is_contradicted or one.kind not in _JUDGED):
            yield Cause(one.kind, one.text, count=count)
