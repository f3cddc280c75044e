"""The condition ``GPUShareHealthy`` and the overuse annotation of the Node, and the write that brings it to them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from gpushare import wire
from gpushare.manifests import ReportedNode
from gpushare.model.cards import NOT_SHARED, CardFacts, NodeCards
from gpushare.model.conditions import HEARTBEAT_SECONDS, NO_CARDS, healthy_condition, heartbeat_age, time_text

# A message is for people; 128 cards with long reasons would be more than they read.
_LONGEST: Final = 4096


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
    message = "; ".join([*map(_state, (*unhealthy, *healthy)), *others])[:_LONGEST]
    return Health("False", "CardsUnhealthy", message) if unhealthy else Health("True", "CardsHealthy", message)


def no_cards(problem: str) -> Health:
    """The condition of a node that shares no card."""
    return Health("False", NO_CARDS, problem[:_LONGEST])


def _state(card: CardFacts) -> str:
    state = "healthy" if card.healthy else f"unhealthy: {card.reason}"
    return f"card {card.index} ({card.model}, {card.uuid}) is {state}"


def report_for(node: ReportedNode, health: Health, overuse: str, now: float) -> dict[str, Any] | None:
    """The one write to ``nodes/status`` that brings the Node to these two; None if it shows them and no heartbeat is due.

    ``overuse`` is the annotation, "" for none; ``now`` is in seconds since 1970.
    """
    patch: dict[str, Any] = {}
    if (node.metadata.annotations or {}).get(wire.ANNOTATION_OVERUSE, "") != overuse:
        patch["metadata"] = {"annotations": {wire.ANNOTATION_OVERUSE: overuse or None}}
    shown = healthy_condition(node)
    age = None if shown is None else heartbeat_age(shown, now)
    is_shown = shown is not None and (shown.status, shown.reason, shown.message) == health
    # A clock that went back must not silence the heartbeat.
    if not is_shown or age is None or not -HEARTBEAT_SECONDS < age < HEARTBEAT_SECONDS:
        at = time_text(int(now))
        since = shown.last_transition_time if shown is not None and shown.status == health.status else None
        condition = {"type": wire.CONDITION_HEALTHY, **health._asdict()}
        patch["status"] = {"conditions": [condition | {"lastHeartbeatTime": at, "lastTransitionTime": since or at}]}
    return patch or None
