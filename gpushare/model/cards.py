"""The cards annotation of a node, in which the device plugin describes its GPUs. Pure.

The text comes from a node, so its size is bounded before it is read, and so is every number in it. A text that is not ours at all
(broken by hand) is no annotation. A text of a later version is a refusal: this program cannot read all of it, so it must not
place pods by a part of it.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec

from gpushare import wire
from gpushare.bounds import CARD_LIST, CARD_TEXT, CARDS_OF_A_NODE, CARDS_TEXT
from gpushare.model.quantity import LARGEST


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


class _AnyCard(msgspec.Struct, gc=False):
    """A card of any version: what is not promised may be missing, or be something else."""

    index: int
    uuid: str
    model: Any = ""
    mib: Any = 0
    units: Any = 0
    slots: Any = 0
    healthy: Any = True
    reason: Any = ""
    numa: Any = 0


class _AnyCards(msgspec.Struct, gc=False):
    """An annotation of any version."""

    v: int
    cards: list[_AnyCard]
    mode: Any = ""
    unit: Any = ""
    boot: Any = ""


CARDS_VERSION: Final = 1
MODE_IDS: Final = "ids"
MODE_SLOTS: Final = "slots"
# The reason of a sick card that pods of the node name, and that is not there any more (slots mode).
REASON_TAKEN_OUT: Final = "taken out of the machine"
_DECODER: Final = msgspec.json.Decoder(NodeCards)
_VERSION: Final = msgspec.json.Decoder(_Version)
_ANY_DECODER: Final = msgspec.json.Decoder(_AnyCards)
# All that a decoder raises for a text from outside; nesting of thousands of levels is the last.
_UNREADABLE: Final = (msgspec.DecodeError, UnicodeEncodeError, RecursionError)


def encode_cards(cards: NodeCards) -> str:
    """The text of the node annotation."""
    return msgspec.json.encode(cards).decode()


def read_cards(text: str | None) -> Description:
    """The content of an annotation; nothing if there is none, or if it is not one of ours."""
    if text is None:
        return Description()
    if CARDS_TEXT.exceeded(len(text)):
        return Description(refusal=CARDS_TEXT.refusal)
    try:
        cards = _DECODER.decode(text)
    except _UNREADABLE:
        return _read_other(text)
    return _checked(cards) if cards.v == CARDS_VERSION else _read_other(text)


def _checked(cards: NodeCards) -> Description:
    """Without cards that contradict each other, and refused if there are more than a machine can have."""
    if CARDS_OF_A_NODE.exceeded(len(cards.cards)):
        return Description(refusal=CARDS_OF_A_NODE.refusal)
    indices = {card.index for card in cards.cards}
    is_sane = len(indices) == len(cards.cards) and all(_is_sane(card, cards.mode) for card in cards.cards)
    return Description(cards) if is_sane and cards.mode in (MODE_IDS, MODE_SLOTS) else Description()


def _is_sane(card: CardFacts, mode: str) -> bool:
    """Are these numbers that mean something? A card that counts containers but takes none would be refused for ever."""
    numbers = (card.index, card.units, card.mib, card.slots, card.numa)
    if any(CARD_TEXT.exceeded(len(text)) for text in (card.uuid, card.model)) or not all(map(_is_amount, numbers)):
        return False
    return card.slots > 0 or mode != MODE_SLOTS


def _is_amount(number: object) -> bool:
    return type(number) is int and 0 <= number <= LARGEST


def _read_other(text: str) -> Description:
    """A text that is not of our version: a refusal if it is of a later one."""
    try:
        if _VERSION.decode(text).v <= CARDS_VERSION:
            return Description()
    except _UNREADABLE:
        return Description()
    try:
        form = _ANY_DECODER.decode(text)
    except _UNREADABLE:
        return Description(refusal=wire.REASON_NEWER_CARDS)
    if CARDS_OF_A_NODE.exceeded(len(form.cards)):
        return Description(refusal=wire.REASON_NEWER_CARDS)
    # A later version promises only the indices and the UUIDs, so they alone are checked.
    if len({card.index for card in form.cards if _is_amount(card.index)}) < len(form.cards):
        return Description(refusal=wire.REASON_NEWER_CARDS)
    mode, unit, boot = (_same_kind(text, "") for text in (form.mode, form.unit, form.boot))
    cards = NodeCards(form.v, mode, unit, boot, tuple(map(_facts_of, form.cards)))
    return Description(cards, wire.REASON_NEWER_CARDS)


def _facts_of(card: _AnyCard) -> CardFacts:
    """With the default of each field that is not what it was."""
    default = _AnyCard(card.index, card.uuid)
    return CardFacts(*(_same_kind(getattr(card, name), getattr(default, name)) for name in _AnyCard.__struct_fields__))


def _same_kind(value: Any, default: Any) -> Any:
    """The value if it is a text, an amount or a boolean as the default is."""
    return value if type(value) is type(default) and (type(value) is not int or _is_amount(value)) else default


def entries_of(text: str) -> list[str]:
    """The texts between the commas of a list of cards. If the list is too long, the first of them and then the bound's refusal."""
    cut = text[: CARD_LIST.most].rpartition(",")[0] if CARD_LIST.exceeded(len(text)) else text
    entries = [entry for part in cut.split(",") if (entry := part.strip())]
    return entries if cut is text else [*entries, CARD_LIST.refusal]
