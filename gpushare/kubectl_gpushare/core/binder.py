"""Which program, or person, gave a pod its node, and which program its card, as far as the API shows it. Pure.

The annotations alone do not show it: the device plugin writes the same ones on a pod that came without the extender. The extender
chooses the card before the pod is bound, and the plugin after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gpushare import wire
from gpushare.kubectl_gpushare.core.cluster_state import Subject
from gpushare.kubectl_gpushare.core.scheduler_objects import Event
from gpushare.model.allocation import Allocation
from gpushare.model.conditions import seconds_of
from gpushare.model.pod import MIRROR, SCHEDULED

GPUSHARE: Final = "gpushare"
ANOTHER_EXTENDER: Final = "another extender"
NODE_NAME: Final = "nodeName"
STATIC: Final = "static pod"
# By what the card was chosen, beside ANOTHER_EXTENDER. Annotations that are older than their pod were copied with its manifest.
EXTENDER: Final = "extender"
PLUGIN: Final = "device plugin"
COPIED: Final = "copied annotations"

_NS: Final = 10**9
# The time of a condition has no fractions, and an event of the pod's first minute shows that none of its first hour has expired.
_SECOND: Final = 1.0
_MINUTE: Final = 60.0


def binder_of(subject: Subject, allocation: Allocation | None, events: Sequence[Event]) -> dict[str, str]:
    """``boundBy``; ``scheduler``, by its event, else by the pod's spec, "" if none was asked; ``cardBy``, "" without a card."""
    event = max((one for one in events if one.reason == "Scheduled"), key=lambda one: one.at, default=None)
    by_person = _by_person(subject, event, events)
    scheduler = "" if by_person else (event.writer if event else "") or subject.rules.spec.scheduler_name or ""
    card = _card_by(subject, allocation, event, is_asked=not by_person)
    by_extender = {EXTENDER: GPUSHARE, ANOTHER_EXTENDER: ANOTHER_EXTENDER}
    return {"boundBy": by_extender.get(card, by_person or scheduler), "scheduler": scheduler, "cardBy": card}


def _card_by(subject: Subject, allocation: Allocation | None, event: Event | None, *, is_asked: bool) -> str:
    is_ours = (subject.metadata.annotations or {}).get(wire.ANNOTATION_EXTENDER) == wire.EXTENDER_BOOK
    if allocation is None:
        return EXTENDER if is_ours and is_asked else ""
    chosen, created = allocation.assume_time / _NS, seconds_of(subject.metadata.creation_timestamp)
    if created is not None and chosen < created:
        return COPIED
    if not is_ours:
        return ANOTHER_EXTENDER
    return EXTENDER if is_asked and not _is_later(chosen, subject, event) else PLUGIN


def _by_person(subject: Subject, event: Event | None, events: Sequence[Event]) -> str:
    """How a pod came to its node without a scheduler; "" if one bound it, or if that is not known."""
    if MIRROR in (subject.metadata.annotations or {}):
        return STATIC
    created = seconds_of(subject.metadata.creation_timestamp)
    if event is not None or created is None:
        return ""
    return NODE_NAME if any(0 <= one.at - created < _MINUTE for one in events) else ""


def _is_later(chosen: float, subject: Subject, event: Event | None) -> bool:
    """Was the card chosen after the pod was bound?"""
    if event is not None and (bound := seconds_of(event.event_time)) is not None:
        return chosen > bound
    conditions = (subject.rules.status.conditions if subject.rules.status else None) or ()
    times = (
        seconds_of(one.last_transition_time) for one in conditions if one.type == SCHEDULED and one.status == "True"
    )
    return any(at is not None and chosen > at + _SECOND for at in times)
