"""The cards that a node announces: which there are, by which index pods know each, which are unhealthy, and the Node's part. Pure.

From one count of NVML to the next a lost card stays in NVML's count without its UUID and its memory, so it is recognised by the
card that is missing. A card that is not even counted any more was taken out.

The conditions and the overuse annotation of the Node are written apart from the cards (``report_for``).
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import msgspec

from gpushare import wire
from gpushare.manifests import Node, ReportedNode
from gpushare.model.cards import (
    CARDS_VERSION,
    MODE_IDS,
    MODE_SLOTS,
    NOT_SHARED,
    REASON_TAKEN_OUT,
    CardFacts,
    NodeCards,
    encode_cards,
)
from gpushare.model.conditions import HEARTBEAT_SECONDS, NO_CARDS, condition_of, heartbeat_age, time_text
from gpushare.model.node import capacity
from gpushare.model.quantity import MemoryUnit

# NVML's index of a card that was not there since our start.
NO_INDEX: Final = -1
# A message is for people; 128 cards with long reasons would be more than they read.
LONGEST_MESSAGE: Final = 4096


@dataclass(frozen=True, slots=True)
class PhysicalCard:
    """One card by NVML: its own index, its memory in MiB (1024² bytes), its NUMA node (0 if unknown)."""

    nvml_index: int
    uuid: str
    model: str
    mib: int
    numa: int = 0


def uuids_of(cards: Iterable[PhysicalCard | CardFacts]) -> frozenset[str]:
    """The UUIDs of the cards."""
    return frozenset(card.uuid for card in cards)


@dataclass(frozen=True, slots=True)
class Roster:
    """``cards`` are shared, those that do not answer (``lost``, by UUID) as they were last seen; ``removed`` are gone."""

    cards: tuple[PhysicalCard, ...] = ()
    lost: frozenset[str] = frozenset()
    removed: frozenset[str] = frozenset()


def count_cards(
    known: Sequence[PhysicalCard],
    answering: Sequence[PhysicalCard],
    unreadable: Sequence[int],
    withheld: frozenset[str],
) -> Roster:
    """The cards now.

    ``known`` are those before, ``answering`` those that NVML describes now, ``unreadable`` the NVML indices of those that
    it only counts, ``withheld`` UUIDs that answer and are not shared (MIG mode). A known card that is missing is lost if an
    unreadable one can be it, first the one of its index; else it was removed. An unreadable card that cannot be a known one
    is left out.
    """
    seen = uuids_of(answering) | withheld
    missing = [card for card in known if card.uuid not in seen]
    by_index = [card for card in missing if card.nvml_index in unreadable]
    others = [card for card in missing if card not in by_index]
    lost = uuids_of([*by_index, *others[: max(len(unreadable) - len(by_index), 0)]])
    cards = (*answering, *(card for card in missing if card.uuid in lost))
    return Roster(cards, lost, uuids_of(known) - uuids_of(cards))


def remembered(cards: NodeCards | None) -> tuple[PhysicalCard, ...]:
    """The cards of a node annotation of ours, as they were when it was written: all that is known before NVML answers."""
    facts = cards.cards if cards is not None else ()
    return tuple(PhysicalCard(NO_INDEX, card.uuid, card.model, card.mib, card.numa) for card in facts)


def describe_cards(
    physical: Sequence[PhysicalCard],
    unit: MemoryUnit,
    boot: str,
    known: Collection[CardFacts] | None = None,
    in_use: frozenset[int] = frozenset(),
    *,
    slots: int = 0,
) -> NodeCards:
    """The node annotation for these cards; with ``slots`` a card in slots mode, whose ``unit`` must be MiB.

    A card keeps the index that it has in ``known`` (cards that were announced before; None: nothing was, so pods that name a
    card have another plugin's count, which is NVML's). A new card gets the lowest index that no card here has and that no pod
    of the node names (``in_use``): an index never silently becomes another card under a pod. A known card that was taken out
    while a pod names it stays, unhealthy: the amount of the node must not fall below what its pods ask for.
    """
    before = {card.uuid: card.index for card in known or ()}
    present = {card.uuid: before[card.uuid] for card in physical if card.uuid in before}
    taken = set(present.values()) | (in_use if known is not None else frozenset())
    free = (index for index in range(len(physical) + len(taken)) if index not in taken)
    indices = {card.uuid: present[card.uuid] if card.uuid in present else next(free) for card in physical}
    facts = [
        CardFacts(indices[card.uuid], card.uuid, card.model, card.mib, unit.units_of(card.mib), slots, numa=card.numa)
        for card in physical
    ]
    missed = in_use - set(indices.values())
    absent = {"slots": slots, "healthy": False, "reason": REASON_TAKEN_OUT}
    facts += [
        msgspec.structs.replace(card, units=units, **absent)
        for card in known or ()
        if card.uuid not in indices and card.index in missed and (units := unit.units_of(card.mib))
    ]
    mode = MODE_SLOTS if slots else MODE_IDS
    return NodeCards(CARDS_VERSION, mode, str(unit), boot, tuple(sorted(facts, key=lambda card: card.index)))


@dataclass(frozen=True, slots=True)
class CardChange:
    """A card became unhealthy, recovered, or is not shared any more (``NOT_SHARED``); ``why`` is the reason, or the rule."""

    card: CardFacts
    healthy: bool
    why: str


def shape(cards: NodeCards) -> tuple[object, ...]:
    """The facts of the cards that a kubelet counts: all but their health."""
    return cards.mode, cards.unit, tuple((card.index, card.uuid, card.units, card.slots) for card in cards.cards)


def amounts(node: Node, cards: NodeCards, *, is_moving: bool) -> dict[str, str]:
    """The capacity that the Node should have; a count of 0 while the kubelet's sum is that of other cards."""
    total = sum(card.units for card in cards.cards)
    if cards.mode == MODE_SLOTS:
        # Ours to write: sum and annotation change together, and no reader sees the one without the other.
        return {wire.RESOURCE_COUNT: "0" if is_moving else str(len(cards.cards)), wire.RESOURCE_MEMORY: str(total)}
    is_other = is_moving or capacity(node, wire.RESOURCE_MEMORY) not in (0, total)
    return {wire.RESOURCE_COUNT: "0" if is_other else str(len(cards.cards))}


def has_left(cards: NodeCards, here: Container[str], in_use: frozenset[int]) -> bool:
    """Is a card still shown that is not among these (``here``, UUIDs), although no pod names it (``in_use``) any more?"""
    return any(card.uuid not in here and card.index not in in_use for card in cards.cards)


def patch_for(node: Node, cards: NodeCards, acted_on: str, *, is_moving: bool) -> dict[str, Any] | None:
    """The one write to ``nodes/status`` that brings the Node to these cards; None if it is there already.

    ``acted_on`` is the operator's annotation that was acted on: it is removed, unless it has changed since.
    """
    wanted = amounts(node, cards, is_moving=is_moving)
    annotations: dict[str, str | None] = {wire.ANNOTATION_CARDS: encode_cards(cards)}
    there = node.metadata.annotations or {}
    if wire.ANNOTATION_RECOVERED in there and there[wire.ANNOTATION_RECOVERED] == acted_on:
        annotations[wire.ANNOTATION_RECOVERED] = None
    shown = (node.status.capacity if node.status else None) or {}
    is_there = all(there.get(name) == text for name, text in annotations.items())
    # By value, as the API server writes 160000 as 160k; by presence too, as an amount of 0 has a meaning.
    if is_there and all(name in shown and capacity(node, name) == int(text) for name, text in wanted.items()):
        return None
    return {"metadata": {"annotations": annotations}, "status": {"capacity": wanted, "allocatable": wanted}}


def about_us(node: Node) -> tuple[object, ...]:
    """The part of a Node that we read or write."""
    annotations, status = node.metadata.annotations or {}, node.status
    shown = ((status.capacity if status else None) or {}).items()
    return (
        node.metadata.uid,
        annotations.get(wire.ANNOTATION_CARDS),
        annotations.get(wire.ANNOTATION_RECOVERED),
        (node.metadata.labels or {}).get(wire.LABEL_ISOLATION_OFF),
        status.node_info if status else None,
        tuple(sorted((name, str(amount)) for name, amount in shown if name.startswith(wire.RESOURCE_PREFIX))),
    )


def changes_between(
    before: NodeCards, after: NodeCards, rules: Mapping[str, str], withheld: Mapping[str, str]
) -> tuple[CardChange, ...]:
    """Cards that became unhealthy, recovered or left the list, each once; a card that is new and healthy is no news for a pod.

    ``rules`` has by UUID how cards recovered, ``withheld`` why cards are not shared; others that left were taken out.
    """
    old = {card.uuid: card for card in before.cards}
    present = {card.uuid for card in after.cards}
    left = [(card, withheld.get(uuid, REASON_TAKEN_OUT)) for uuid, card in old.items() if uuid not in present]
    changes = [CardChange(card, False, why) for card, why in left if card.reason != why]
    for card in after.cards:
        was = old[card.uuid].healthy or old[card.uuid].reason in NOT_SHARED if card.uuid in old else True
        if not card.healthy and was and (card.uuid not in old or old[card.uuid].reason != card.reason):
            changes.append(CardChange(card, False, card.reason))
        elif card.healthy and not was:
            changes.append(CardChange(card, True, rules.get(card.uuid, f"no longer: {old[card.uuid].reason}")))
    return tuple(changes)


class Health(NamedTuple):
    """The part of the condition that does not depend on the time."""

    status: str
    reason: str
    message: str


ENDED: Final = Health(
    "Unknown", "PluginEnded", "the device plugin of this node has ended, so its cards are not watched"
)


def health_of(cards: NodeCards, withheld: Mapping[str, str] | None = None) -> Health:
    """The condition of a node: each card with its state, the unhealthy ones first. ``withheld`` has by UUID why a card is
    not shared: that is no fault of the node.
    """
    others = [f"card {uuid} is not shared: {why}" for uuid, why in (withheld or {}).items()]
    if not cards.cards:
        return no_cards("; ".join(["no card is shared", *others]))
    unhealthy = [card for card in cards.cards if not card.healthy and card.reason not in NOT_SHARED]
    healthy = [card for card in cards.cards if card.healthy]
    message = "; ".join([*map(_state, (*unhealthy, *healthy)), *others])[:LONGEST_MESSAGE]
    return Health("False", "CardsUnhealthy", message) if unhealthy else Health("True", "CardsHealthy", message)


def no_cards(problem: str) -> Health:
    """The condition of a node that shares no card."""
    return Health("False", NO_CARDS, problem[:LONGEST_MESSAGE])


def _state(card: CardFacts) -> str:
    state = "healthy" if card.healthy else f"unhealthy: {card.reason}"
    return f"card {card.index} ({card.model}, {card.uuid}) is {state}"


def report_for(
    node: ReportedNode, health: Health, overuse: str, now: float, limits: Health | None = None
) -> dict[str, Any] | None:
    """The one write to ``nodes/status`` that brings the Node to these; None if it shows them and no heartbeat is due.

    ``overuse`` is the annotation, "" for none; ``limits`` is the condition about limits, None for none; ``now`` is in seconds since
    1970.
    """
    patch: dict[str, Any] = {}
    if (node.metadata.annotations or {}).get(wire.ANNOTATION_OVERUSE, "") != overuse:
        patch["metadata"] = {"annotations": {wire.ANNOTATION_OVERUSE: overuse or None}}
    wanted = ((wire.CONDITION_HEALTHY, health), (wire.CONDITION_LIMITS, limits))
    if conditions := [change for name, state in wanted if (change := _condition_for(node, name, state, now))]:
        patch["status"] = {"conditions": conditions}
    return patch or None


def _condition_for(node: ReportedNode, name: str, state: Health | None, now: float) -> dict[str, str] | None:
    """The change of one condition, if there is one to make."""
    shown = condition_of(node, name)
    if state is None:
        return {"type": name, "$patch": "delete"} if shown is not None else None
    age = None if shown is None else heartbeat_age(shown, now)
    is_shown = shown is not None and (shown.status, shown.reason, shown.message) == state
    # A clock that went back must not silence the heartbeat.
    if is_shown and age is not None and -HEARTBEAT_SECONDS < age < HEARTBEAT_SECONDS:
        return None
    at = time_text(int(now))
    since = shown.last_transition_time if shown is not None and shown.status == state.status else None
    return {"type": name, **state._asdict(), "lastHeartbeatTime": at, "lastTransitionTime": since or at}
