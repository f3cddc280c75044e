"""The kinds of waiting: why a pod has no node, each kind with its meaning and with what ends it. Pure.

A node counts under one kind by what keeps the pod from it first: kube-scheduler's own filters, then the cards. Cards that are sick,
and pods that kube-scheduler could preempt and does not, count in addition.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from gpushare import wire
from gpushare.extender.core.explain import room_if_ended, wanted_of, why_no_preemption
from gpushare.kubectl_gpushare.core import node_rules
from gpushare.kubectl_gpushare.core.cluster_state import ClusterState, Subject
from gpushare.kubectl_gpushare.core.scheduler_objects import AskedPod, Event, ScheduledNode
from gpushare.model.node import NodeInfo, described_cards, is_unoffered
from gpushare.model.placement import CURABLE, Question, reason_against

EXTENDER_AWAY: Final = "extender-away"
GATED: Final = "gated"
NOT_ASKED: Final = "not-asked"
BAD_WISH: Final = "bad-wish"
QUOTA: Final = "quota"
NOT_CREATED: Final = "not-created"
HAS_ROOM: Final = "has-room"
FULL: Final = "full"
FRAGMENTED: Final = "fragmented"
GROUP_FULL: Final = "same-card-full"
GROUP_ELSEWHERE: Final = "same-card-elsewhere"
NO_SLOT: Final = "no-slot"
NO_PREEMPTION: Final = "no-preemption"
SICK: Final = "sick"
NO_SUCH_CARD: Final = "no-such-card"
TOO_SMALL: Final = "too-small"
SLOT_MISSING: Final = "slot-missing"
NOT_OFFERED: Final = "not-offered"
RESOURCES: Final = "resources"
NODE_SELECTOR: Final = "node-selector"
TAINT: Final = "taint"
CORDONED: Final = "cordoned"
NOT_SHARED: Final = "no-shared-cards"
OTHER: Final = "other"

# By kind, in the order in which they are shown: the meaning, and what ends it.
KINDS: Final[dict[str, tuple[str, str]]] = {
    EXTENDER_AWAY: (
        "kube-scheduler gets no answer from the extender",
        "look at the extender's pods and log: kubectl -n kube-system get pods -l app.kubernetes.io/name=gpushare",
    ),
    GATED: ("the pod has scheduling gates", "the controller that set them removes them"),
    NOT_ASKED: (
        "no scheduler has reported on the pod",
        "check that the scheduler of spec.schedulerName runs, and read its log",
    ),
    BAD_WISH: ("an annotation or an amount of the pod cannot be read", "correct it and create the pod again"),
    QUOTA: ("a quota of the namespace refuses the pod", "raise the quota, or end other pods of the namespace"),
    NOT_CREATED: ("the API server refuses the pod", "the message has the reason"),
    HAS_ROOM: (
        "a card has room now, and the scheduler has not asked again",
        "wait a minute; percentageOfNodesToScore may keep the scheduler from the node",
    ),
    FULL: ("the cards of the node have too little free, in sum too", "end the pods of one card, or add a node"),
    FRAGMENTED: (
        "the node has enough free in sum, but no single card has",
        "end the pods of one card; the policy fragmentation makes this rarer",
    ),
    GROUP_FULL: (
        "the card of the pods that it shares a card with is too full",
        f"end a pod of that card, or take {wire.WISH_SAME_CARD} away",
    ),
    GROUP_ELSEWHERE: (
        "the pods that it shares a card with are on another node or card",
        "nothing: only that card will do",
    ),
    NO_SLOT: ("the cards with room take no more containers", "end a container of the card, or raise --slots"),
    NO_PREEMPTION: (
        "the pod's priority is higher, but kube-scheduler preempts no pod if the node has room in sum",
        "end the pods of one card by hand",
    ),
    SICK: ("a card that is large enough is sick", "see docs/troubleshooting.md, When a sick card is well again"),
    NO_SUCH_CARD: ("no card is one that the pod wishes for", "correct the wish, or add a node that has such a card"),
    TOO_SMALL: ("even an empty card of the node does not hold the pod", "ask for less, or add larger cards"),
    SLOT_MISSING: (
        f"a container asks for {wire.RESOURCE_MEMORY} without {wire.RESOURCE_SLOT}",
        f"add {wire.RESOURCE_SLOT}: 1 to its limits, or install the policy that does",
    ),
    NOT_OFFERED: (
        "the node has cards and offers none of them: its device plugin is away or waits",
        "kubectl gpushare doctor names the node; see docs/troubleshooting.md, At night",
    ),
    RESOURCES: ("the node has too little of something else", "ask for less of it, or end other pods of the node"),
    NODE_SELECTOR: ("the pod's node selector or affinity excludes the node", "correct the selector, or label the node"),
    TAINT: ("the pod does not tolerate a taint of the node", "add the toleration, or remove the taint"),
    CORDONED: ("the node is cordoned", "kubectl uncordon, if it may take pods again"),
    NOT_SHARED: (
        "no node reports shared cards",
        "look at the device plugin's pods: kubectl -n kube-system get pods -l app.kubernetes.io/name=gpushare",
    ),
    OTHER: ("the node refuses the pod", "docs/troubleshooting.md has each reason"),
}

_BY_REASON: Final = {
    wire.REASON_NO_SLOT: NO_SLOT,
    wire.REASON_NO_CARDS_FOR_SPLIT: FULL,
    wire.REASON_ALL_CARDS_UNHEALTHY: SICK,
    wire.REASON_NO_SUCH_CARD: NO_SUCH_CARD,
    wire.REASON_CARDS_UNSAID: NO_SUCH_CARD,
    wire.REASON_OTHER_CARD: GROUP_ELSEWHERE,
    wire.REASON_SLOT_MISSING: SLOT_MISSING,
    wire.REASON_NO_CARD_LARGE_ENOUGH: TOO_SMALL,
    wire.REASON_NO_WHOLE_CARD: TOO_SMALL,
    wire.REASON_TOO_FEW_CARDS: TOO_SMALL,
    wire.REASON_TOO_MANY_CONTAINERS: TOO_SMALL,
}
_BY_RULE: Final = (
    (node_rules.CORDONED, CORDONED),
    (node_rules.TAINTED, TAINT),
    (node_rules.OTHER_NODE, NODE_SELECTOR),
    (node_rules.NOT_SELECTED, NODE_SELECTOR),
)
_OF_CARDS: Final = (wire.RESOURCE_MEMORY, wire.RESOURCE_SLOT)
_MOST_MESSAGES: Final = 3
_FAILED: Final = "FailedScheduling"
# kube-scheduler's words for a call of an extender that failed, and the extender's own while it starts.
_FAILED_CALL: Final = re.compile(
    rf'Post "[^"]*{wire.PATH_PREFIX}/|with extender at URL|extender has not read the cluster'
)


@dataclass(frozen=True, slots=True)
class Cause:
    """One kind of waiting; ``message`` is another program's text about it, ``nodes`` those on which it is so."""

    kind: str
    message: str = ""
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeVerdict:
    """One node's answer: ``rule`` is kube-scheduler's reason, empty if it has none.

    ``kinds`` are the kinds of waiting that it counts under, with a text about each.
    """

    name: str
    rule: str
    kinds: tuple[tuple[str, str], ...]


def verdicts_on(subject: Subject, asked: Question, state: ClusterState) -> list[NodeVerdict]:
    """The answer of each node that has shared cards, or had them until its device plugin ended."""
    wanted = node_rules.amounts_of(subject.pod)
    beside_cards = {name: amount for name, amount in wanted.items() if name not in _OF_CARDS}
    found: list[NodeVerdict] = []
    for name, info in state.snapshot().nodes.items():
        node = state.nodes[name]
        unoffered = is_unoffered(node)
        if not info.devices and not info.refusal and not unoffered:
            continue
        reason = reason_against(info, asked) if asked.request.units else ""
        rule = node_rules.rule_against(node, subject.rules)
        # The sum over its cards is a worse reason than the cards themselves, except if the kubelet offers none of them.
        counted = wanted if unoffered or not reason else beside_cards
        rule = rule or node_rules.short_of(state.free_on(name), counted)
        short = NOT_OFFERED if unoffered else RESOURCES
        kinds = _of_rule(rule, short) if rule else _of_cards(info, asked, reason, node, subject.priority)
        found.append(NodeVerdict(name, rule, tuple(kinds)))
    return found


def _of_rule(rule: str, short_of_cards: str) -> Iterator[tuple[str, str]]:
    of_cards = any(one in rule for one in _OF_CARDS)
    short = short_of_cards if of_cards else RESOURCES
    yield next((kind for text, kind in _BY_RULE if rule.startswith(text)), short), rule


def _of_cards(
    info: NodeInfo, asked: Question, reason: str, node: ScheduledNode, priority: int
) -> Iterator[tuple[str, str]]:
    if not reason:
        yield HAS_ROOM, ""
        return
    kind, units = _kind_of(info, asked, reason), wanted_of(asked.request)
    sick = [] if info.refusal else list(_sick_cards(info, asked, units, node))
    if kind != SICK or not sick:
        yield kind, reason
    yield from ((SICK, text) for text in sick)
    if reason in CURABLE and _is_not_preempted(info, asked, units, priority):
        yield NO_PREEMPTION, ""


def _kind_of(info: NodeInfo, asked: Question, reason: str) -> str:
    if reason != wire.REASON_NO_CARD_FITS:
        return _BY_REASON.get(reason, OTHER)
    if asked.home:
        return GROUP_FULL
    free = sum(device.free for device in info.devices if asked.wishes_for(device))
    return FRAGMENTED if free >= asked.request.units else FULL


def _sick_cards(info: NodeInfo, asked: Question, units: int, node: ScheduledNode) -> Iterator[str]:
    """The cards that would hold the pod if they were well, and why each is not."""
    cards, _ = described_cards(node)
    why = {card.index: card.reason for card in (cards.cards if cards else ())}
    for device in info.devices:
        is_one = asked.wishes_for(device) and (not asked.home or device.index in asked.home.get(info.name, ()))
        if is_one and not device.healthy and device.total - device.used >= units:
            yield f"node {info.name}: card {device.index}: {why.get(device.index) or 'declared sick'}"


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
        for kind in KINDS
        if kind in nodes
    ]


def scheduler_report(pod: AskedPod, events: Sequence[Event]) -> tuple[str, str]:
    """The scheduler's last reason and text about the pod: its condition, else its last event; empty if it reported nothing."""
    for condition in (pod.status.conditions if pod.status else None) or ():
        if condition.type == "PodScheduled" and condition.status != "True":
            return condition.reason or "", condition.message or ""
    failed = [event for event in events if event.reason == _FAILED]
    last = max(failed, key=lambda event: event.when, default=None)
    return ("", "") if last is None else (_FAILED, last.message or "")


def causes_of_pod(pod: AskedPod, events: Sequence[Event]) -> list[Cause]:
    """The causes that hold for every node, by the pod's own fields and by the report of its scheduler."""
    if pod.spec.scheduling_gates:
        return [Cause(GATED)]
    reason, text = scheduler_report(pod, events)
    if _FAILED_CALL.search(text):
        return [Cause(EXTENDER_AWAY, text)]
    return [] if reason else [Cause(NOT_ASKED, f"schedulerName: {pod.spec.scheduler_name or 'default-scheduler'}")]


def causes_of_absent(name: str, events: Iterable[Event]) -> list[Cause]:
    """Why a controller could not create the pod; ``name`` is the pod's or its controller's, or how that begins."""
    found: dict[str, str] = {}
    for event in events:
        owner = event.involved_object.name
        if event.reason == "FailedCreate" and (owner.startswith(name) or name.startswith(f"{owner}-")):
            message = event.message or ""
            found[QUOTA if "exceeded quota" in message else NOT_CREATED] = message
    return [Cause(kind, found[kind]) for kind in KINDS if kind in found]
