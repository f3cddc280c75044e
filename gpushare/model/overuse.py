"""Pods that use more of a card than they booked, as the device plugin publishes them on its node. Pure.

The text comes from a node, so its size and each number in it are bounded. A text that is not ours names no pods.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from gpushare.bounds import NAME_CHARACTERS, OVERUSE_TEXT, OVERUSERS
from gpushare.foreign import Decoder, entries_of
from gpushare.model.quantity import LARGEST


class CardOveruse(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A pod, by its uid, that used ``used`` MiB of the card with this index when it was published, and booked ``booked`` MiB."""

    uid: str
    index: int
    booked: int
    used: int


_DECODER = Decoder(tuple[CardOveruse, ...], 0)


def encode_overuse(found: Iterable[CardOveruse]) -> str:
    """The annotation, "" for no pods; of more than a node may name those with the most MiB above their booking."""
    worst = sorted(found, key=lambda one: (one.booked - one.used, one.uid, one.index))[: OVERUSERS.most]
    return msgspec.json.encode(sorted(worst, key=lambda one: (one.index, one.uid))).decode() if worst else ""


def read_overuse(text: str | None) -> tuple[CardOveruse, ...]:
    """The pods that an annotation names."""
    # Each pod is a list in the text: they are counted before one of them is read.
    if not text or OVERUSE_TEXT.exceeded(len(text)) or OVERUSERS.exceeded(text.count("[") - 1):
        return ()
    return entries_of(text, _DECODER, _is_sane)


def _is_sane(one: CardOveruse) -> bool:
    numbers = one.index, one.booked, one.used
    return not NAME_CHARACTERS.exceeded(len(one.uid)) and all(0 <= number <= LARGEST for number in numbers)
