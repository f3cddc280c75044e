"""The cards of a node, from its annotation or, without one, from its capacity. Pure; the format is restated, not imported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from e2e import spec
from e2e.checkers.pod_requests import whole_number

_VERSION: Final = 1
_UNITS: Final[Mapping[str, int]] = {"GiB": 1024, "MiB": 1}
# No card has more GiB than this, or fewer MiB.
_MANY: Final = 1000


class UnreadableError(ValueError):
    """An annotation that does not describe cards, or an amount that is none; the text has what is wrong in it."""


class Card(msgspec.Struct, frozen=True):
    """One card as the node's annotation has it; ``units`` is its size, in the node's unit."""

    index: int
    uuid: str
    units: int
    healthy: bool
    slots: int = 0
    reason: str = ""
    model: str = ""
    mib: int = 0


class _Version(msgspec.Struct, frozen=True):
    v: int


class _Document(msgspec.Struct, frozen=True):
    mode: str
    cards: tuple[Card, ...]
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Cards:
    """The cards of one node; ``mode`` is ``ids`` or ``slots``, and it and ``unit`` are "" for those that were only counted."""

    mode: str
    unit: str
    cards: Mapping[int, Card]

    @property
    def units(self) -> int:
        """The sum of all cards."""
        return sum(card.units for card in self.cards.values())

    @property
    def slots(self) -> int:
        """The sum of all cards."""
        return sum(card.slots for card in self.cards.values())

    @property
    def mib_per_unit(self) -> int:
        """The size of a unit of the node, in MiB. Raises UnreadableError.

        The original's device plugin does not write its unit on the node: it is GiB, or MiB with ``--memory-unit=MiB``.
        """
        if not self.mode:
            largest = max((card.units for card in self.cards.values()), default=0)
            return 1 if largest > _MANY else spec.MIB_PER_UNIT
        try:
            return _UNITS[self.unit] if self.unit in _UNITS else int(self.unit.removesuffix("MiB"))
        except ValueError as error:
            raise UnreadableError(f"its unit is not known: {error}") from error


def amount(node: Mapping[str, Any], resource: str, of: str = "capacity") -> int:
    """How much of a resource the node's ``capacity`` or ``allocatable`` has; 0 if it has none. Raises UnreadableError."""
    quantity = (node.get("status", {}).get(of) or {}).get(resource, 0)
    try:
        return whole_number(quantity)
    except ValueError as error:
        raise UnreadableError(f"its {of} of {resource} cannot be read: {error}") from error


def offers(node: Mapping[str, Any], resource: str, of: str = "capacity") -> bool:
    """Does the node's ``capacity`` or ``allocatable`` have any of a resource? An amount that cannot be read is one."""
    return str((node.get("status", {}).get(of) or {}).get(resource, 0)) != "0"


def described(node: Mapping[str, Any]) -> Cards | None:
    """The cards in the node's annotation; None without one. Raises UnreadableError."""
    text = (node["metadata"].get("annotations") or {}).get(spec.NODE_CARDS)
    if text is None:
        return None
    try:
        version = msgspec.json.decode(text, type=_Version).v
        if version != _VERSION:
            raise UnreadableError(f"its version is {version}, and only {_VERSION} is known")
        document = msgspec.json.decode(text, type=_Document)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise UnreadableError(f"{type(error).__name__}: {error}") from error
    by_index = {card.index: card for card in document.cards}
    if len(by_index) != len(document.cards):
        raise UnreadableError("two cards have the same index")
    return Cards(document.mode, document.unit, by_index)


def averaged(node: Mapping[str, Any]) -> Cards:
    """Cards of equal size, as both extenders assume of a node with the original's plugin. Raises UnreadableError."""
    count = amount(node, spec.RESOURCE_COUNT)
    units = amount(node, spec.RESOURCE_MEMORY) // count if count else 0
    return Cards("", "", {index: Card(index, "", units, True) for index in range(count)})
