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
from gpushare.model.waiting import DEFAULT_SCHEDULER

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


def binder_of(
    subject: Subject, allocation: Allocation | None, events: Sequence[Event], *, are_whole: bool = False
) -> dict[str, str]:
    """``boundBy``; ``scheduler``, by its event, else by the pod's spec, "" if none was asked; ``cardBy``, "" without a card.

    ``are_whole``: none of the pod's events can have expired, and all could be read.
    """
    event = max((one for one in events if one.reason == "Scheduled"), key=lambda one: one.at, default=None)
    by_person = "" if event else _by_person(subject, are_whole=are_whole)
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
    was_before = _was_before(chosen, subject, event) if is_asked else False
    if was_before is None:
        return EXTENDER if (subject.rules.spec.scheduler_name or DEFAULT_SCHEDULER) in _ASKING else UNKNOWN
    return EXTENDER if was_before else PLUGIN


def _by_person(subject: Subject, *, are_whole: bool) -> str:
    """How a pod without a scheduler's event came to its node; "" if that is not known. kube-scheduler always writes one."""
    if MIRROR in (subject.metadata.annotations or {}):
        return STATIC
    by_default = (subject.rules.spec.scheduler_name or DEFAULT_SCHEDULER) == DEFAULT_SCHEDULER
    return NODE_NAME if are_whole and by_default else ""


def _was_before(chosen: float, subject: Subject, event: Event | None) -> bool | None:
    """Was the card chosen before the pod was bound? None if both were in one second, or if a time is not known."""
    if event is not None and (exact := seconds_of(event.event_time)) is not None:
        return chosen <= exact
    conditions = (subject.rules.status.conditions if subject.rules.status else None) or ()
    times = (
        seconds_of(one.last_transition_time) for one in conditions if one.type == SCHEDULED and one.status == "True"
    )
    at = next(times, None)
    return None if at is None or int(chosen) == int(at) else chosen < at
