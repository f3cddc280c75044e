"""The cards annotation of a node, in which the device plugin describes its GPUs. Pure.

The text comes from a node, so its size is bounded before it is read, and so is every number in it. A text that is not ours at all
(broken by hand) is no annotation. A text of a later version is a refusal: this program cannot read all of it, so it must not
place pods by a part of it.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeVar

import msgspec

from gpushare import wire
from gpushare.bounds import CARD_LIST, CARD_TEXT, CARDS_OF_A_NODE, CARDS_TEXT
from gpushare.foreign import Decoder, UnreadableError
from gpushare.model.quantity import LARGEST

_T = TypeVar("_T")


class CardFacts(msgspec.Struct, frozen=True, gc=False):
    """One card in the node annotation. ``index`` is ours: fixed to the UUID; ``units`` counts ``unit``s of memory.

    ``slots`` is how many containers it takes at the same time in slots mode, and 0 in ids mode, which does not count containers.
    """

    index: int
    uuid: str
    model: str
    mib: int
    units: int
    slots: int = 0
    healthy: bool = True
    reason: str = ""
    numa: int = 0


class NodeCards(msgspec.Struct, frozen=True, gc=False):
    """The node annotation ``aliyun.com/gpushare-cards``.

    ``mode`` is ``ids`` (one fake device is one unit) or ``slots`` (one is one container, ``unit`` is MiB). Every version has ``v``,
    and in ``cards`` an ``index`` and a ``uuid`` for each: a plugin that was rolled back must find which index each card has.
    """

    v: int
    mode: str
    unit: str
    boot: str
    cards: tuple[CardFacts, ...]


class Description(NamedTuple):
    """A cards annotation as it was read.

    ``cards`` is None if there is none that can be read. ``refusal`` is why no pod may be placed by the annotation, None if one may;
    ``cards`` may still be there then, to show them and to keep their indices.
    """

    cards: NodeCards | None = None
    refusal: str | None = None


class _Version(msgspec.Struct, gc=False):
    """The one field that comes before all others."""

    v: int


class _Place(msgspec.Struct, gc=False):
    """The fields of a card that every version has."""

    index: int
    uuid: str


class _Places(msgspec.Struct, gc=False):
    """The fields of an annotation that every version has."""

    v: int
    cards: list[_Place]


CARDS_VERSION: Final = 1
MODE_IDS: Final = "ids"
MODE_SLOTS: Final = "slots"
# The reasons of a card that pods of the node name, and that is not announced for any other: it is not there any more, or nothing
# is wrong with it and it is not shared.
REASON_TAKEN_OUT: Final = "taken out of the machine"
REASON_MIG: Final = "in MIG mode"
REASON_TOO_SMALL: Final = "smaller than one unit"
REASON_NOT_VISIBLE: Final = "not in the device plugin's NVIDIA_VISIBLE_DEVICES"
NOT_SHARED: Final = frozenset({REASON_MIG, REASON_TOO_SMALL, REASON_NOT_VISIBLE})
_DECODER: Final = Decoder(NodeCards, 0)
_VERSION: Final = Decoder(_Version, 0)
_PLACES: Final = Decoder(_Places, 0)


def encode_cards(cards: NodeCards) -> str:
    """The text of the node annotation."""
    return msgspec.json.encode(cards).decode()


def read_cards(text: str | None) -> Description:
    """The content of an annotation; nothing if there is none, or if it is not one of ours."""
    if text is None:
        return Description()
    if CARDS_TEXT.exceeded(len(text)):
        return Description(refusal=CARDS_TEXT.refusal)
    cards = _decoded(_DECODER, text)
    form = cards or _decoded(_VERSION, text)
    if form is not None and form.v > CARDS_VERSION:
        return Description(_cards_of_later(cards, text), wire.REASON_NEWER_CARDS)
    if cards is None or cards.v < CARDS_VERSION:
        return Description()
    if CARDS_OF_A_NODE.exceeded(len(cards.cards)):
        return Description(refusal=CARDS_OF_A_NODE.refusal)
    return Description(cards) if _are_sane(cards) and cards.mode in (MODE_IDS, MODE_SLOTS) else Description()


def _decoded(decoder: Decoder[_T], text: str) -> _T | None:
    try:
        return decoder.decode(text)
    except UnreadableError:
        return None


def _cards_of_later(cards: NodeCards | None, text: str) -> NodeCards | None:
    """The cards of a later version: if their fields are not what they were, the indices and UUIDs alone."""
    places = _decoded(_PLACES, text)
    if places is None or CARDS_OF_A_NODE.exceeded(len(places.cards)):
        return None
    if cards is None or not _are_sane(cards):
        facts = (CardFacts(one.index, one.uuid, "", 0, 0) for one in places.cards)
        cards = NodeCards(places.v, "", "", "", tuple(facts))
    return cards if _are_sane(cards) else None


def _are_sane(cards: NodeCards) -> bool:
    """Do all these numbers mean something? A card that counts containers but takes none would be refused for ever."""
    for card in cards.cards:
        if any(CARD_TEXT.exceeded(len(text)) for text in (card.uuid, card.model)):
            return False
        if not all(0 <= number <= LARGEST for number in (card.index, card.units, card.mib, card.slots, card.numa)):
            return False
        if cards.mode == MODE_SLOTS and not card.slots:
            return False
    return len({card.index for card in cards.cards}) == len(cards.cards)


def entries_of(text: str) -> list[str]:
    """The texts between the commas of a list of cards. If the list is too long, the first of them and then the bound's refusal."""
    cut = text[: CARD_LIST.most].rpartition(",")[0] if CARD_LIST.exceeded(len(text)) else text
    entries = [entry for part in cut.split(",") if (entry := part.strip())]
    return entries if cut is text else [*entries, CARD_LIST.refusal]
