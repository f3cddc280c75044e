"""The content of our Node about its cards, and the changes since. Pure."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any

from gpushare import wire
from gpushare.manifests import Node
from gpushare.model.cards import MODE_SLOTS, REASON_TAKEN_OUT, CardFacts, NodeCards, encode_cards
from gpushare.model.node import capacity


@dataclass(frozen=True, slots=True)
class CardChange:
    """A card fell ill or recovered; ``why`` is the reason, or the rule."""

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


def changes_between(before: NodeCards | None, after: NodeCards, rules: Mapping[str, str]) -> tuple[CardChange, ...]:
    """Cards that fell ill, recovered or were taken out; a card that is new and well is no news for a pod. None: no cards."""
    shown = before.cards if before is not None else ()
    old = {card.uuid: card for card in shown}
    present = {card.uuid for card in after.cards}
    changes = [CardChange(card, False, REASON_TAKEN_OUT) for card in shown if card.uuid not in present]
    for card in after.cards:
        was = old[card.uuid].healthy if card.uuid in old else True
        if was and not card.healthy:
            changes.append(CardChange(card, False, card.reason))
        elif card.healthy and not was:
            changes.append(CardChange(card, True, rules.get(card.uuid, f"no longer: {old[card.uuid].reason}")))
    return tuple(changes)
