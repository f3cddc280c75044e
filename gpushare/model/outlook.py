"""Which pods are expected to come, and how much of a node's free card memory they will leave unused. Pure.

Pods come in classes: an amount of a number of cards, an amount of CPU, some models. Two figures follow from how often each comes:

* **fragments**: what a pod that comes next could not use of the node as it is, in expectation (the measure of "Beware of
  Fragmentation", USENIX ATC 2023). Large pods count for less than by their number: a class weighs that over the root of its size.
* **stranded** memory: what stays unused when the node is filled up with such pods until none fits any more, which most often is for
  want of CPU. It depends on free CPU and free memory alone: a table, each entry the mean over the classes that fit there.

Their weighed sum is the waste of a node. The policy ``fragmentation`` places a pod where that grows least. Found by replaying a
production trace (load/replay): with the mean in the table it also holds if CPU is much scarcer than cards.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import ceil
from typing import Final

from gpushare.model.node import NodeInfo
from gpushare.model.wishes import NONE, Wishes

# How much a unit of stranded memory counts beside a unit of fragments.
_STRANDED: Final = 2.0
# A class weighs its number times this power of its size.
_SIZE_POWER: Final = -0.5
# So many classes stand for all: the rest is rare.
_MOST_CLASSES: Final = 256
# Steps of the table: milli-CPUs, and parts of a card. It is as wide as the largest node that is asked about, up to this many
# steps, and looks at what comes most often: the widest takes about a second.
_CPU_STEP: Final = 2000
_CARD_PARTS: Final = 10
_MOST_CPU_STEPS: Final = 256
_MOST_PARTS: Final = 320
_MOST_TABLE_CLASSES: Final = 64
# Values of node states that are kept; beyond that all are computed again.
_MOST_KNOWN: Final = 20_000

# A healthy card: units free, units in all, model.
Card = tuple[int, int, str]


@dataclass(frozen=True, slots=True)
class PodClass:
    """The request of the pods of a class: ``units`` of each of ``cards`` cards of one node, milli-CPUs, and wishes for models."""

    units: int
    cards: int = 1
    cpu_milli: int = 0
    wishes: Wishes = NONE

    @property
    def size(self) -> int:
        """Units in all."""
        return self.units * self.cards


class Outlook:
    """How often each class comes, in any measure. A value: its tables are made when they are asked for, and never change."""

    def __init__(self, counts: Mapping[PodClass, float]) -> None:
        asking = (item for item in counts.items() if item[0].size > 0 and item[1] > 0)
        most = sorted(asking, key=lambda item: -item[1])[:_MOST_CLASSES]
        self.counts: Mapping[PodClass, float] = dict(most)
        weights = {one: count * one.size**_SIZE_POWER for one, count in most}
        total = sum(weights.values())
        self._weights = {one: weight / total for one, weight in weights.items()}
        # Which classes have enough CPU depends on which of these values a node's free CPU reaches.
        self._cpus = sorted({one.cpu_milli for one in weights})
        self._too_large: dict[tuple[str, int], _TooLarge] = {}
        self._several: dict[int, tuple[_Several, ...]] = {}
        self._stranded: dict[tuple[frozenset[str], int], _Stranded] = {}
        self._allowed: dict[tuple[Wishes, str], bool] = {}
        self._known: dict[tuple[tuple[Card, ...], int | None], float] = {}

    def waste(self, cards: tuple[Card, ...], cpu_milli: int | None) -> float:
        """Units of these cards of one node that are expected to stay unused; ``cpu_milli`` is free, None if it is not known."""
        state = cards, cpu_milli
        value = self._known.get(state)
        if value is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            value = self._known[state] = self.fragments(cards, cpu_milli)
            if cpu_milli is not None:
                value += _STRANDED * self.stranded(cards, cpu_milli)
                self._known[state] = value
        return value

    def fragments(self, cards: Sequence[Card], cpu_milli: int | None) -> float:
        """Units that the next pod could not use: all free ones if it does not fit, else those of the cards that do not hold it."""
        at = len(self._cpus) if cpu_milli is None else bisect_right(self._cpus, cpu_milli)
        found = sum(free * self._too_large_of(model, at).share(free) for free, _, model in cards)
        free_in_all = sum(free for free, _, _ in cards)
        for several in self._several_at(at):
            found += several.weight * (free_in_all - several.usable(cards))
        return found

    def stranded(self, cards: Sequence[Card], cpu_milli: int) -> float:
        """Units of these cards that stay unused when pods fill the node up."""
        free_in_all = sum(free for free, _, _ in cards)
        if not free_in_all:
            return 0.0
        models = frozenset(model for _, _, model in cards)
        largest = max(total for _, total, _ in cards)
        table = self._stranded.get((models, largest))
        if table is None:
            classes = [
                (one, count)
                for one, count in self.counts.items()
                if any(self._allows(one.wishes, model) for model in models)
            ]
            table = self._stranded[models, largest] = _Stranded(classes[:_MOST_TABLE_CLASSES], largest)
        return table.value(cpu_milli, free_in_all)

    def _too_large_of(self, model: str, at: int) -> _TooLarge:
        found = self._too_large.get((model, at))
        if found is None:
            of = [(one, weight, self._fits(one, at)) for one, weight in self._weights.items()]
            never = sum(
                weight
                for one, weight, fits in of
                if not fits or (one.cards == 1 and not self._allows(one.wishes, model))
            )
            sizes = [
                (one.units, weight)
                for one, weight, fits in of
                if fits and one.cards == 1 and self._allows(one.wishes, model)
            ]
            found = self._too_large[model, at] = _TooLarge(never, sizes)
        return found

    def _several_at(self, at: int) -> tuple[_Several, ...]:
        found = self._several.get(at)
        if found is None:
            groups: dict[tuple[int, int, Wishes], float] = defaultdict(float)
            for one, weight in self._weights.items():
                if one.cards > 1 and self._fits(one, at):
                    groups[one.units, one.cards, one.wishes] += weight
            found = self._several[at] = tuple(
                _Several(units, cards, wishes, weight, self._allows)
                for (units, cards, wishes), weight in groups.items()
            )
        return found

    def _allows(self, wishes: Wishes, model: str) -> bool:
        """Remembered: to compare models word by word takes long."""
        key = wishes, model
        found = self._allowed.get(key)
        if found is None:
            found = self._allowed[key] = not wishes.names_cards or wishes.allow_model(model)
        return found

    def _fits(self, one: PodClass, at: int) -> bool:
        """Is its CPU among the first ``at`` values?"""
        return at > 0 and one.cpu_milli <= self._cpus[at - 1]


class _TooLarge:
    """The weight of the classes of one card that a card with this much free memory does not hold."""

    def __init__(self, never: float, sizes: Sequence[tuple[int, float]]) -> None:
        ordered = sorted(sizes)
        self._sizes = [units for units, _ in ordered]
        # The weights of all sizes that are larger than the first N.
        self._behind = [*accumulate((weight for _, weight in reversed(ordered)), initial=never)][::-1]

    def share(self, free: int) -> float:
        return self._behind[bisect_right(self._sizes, free)]


@dataclass(frozen=True, slots=True)
class _Several:
    """The classes of several cards that differ in their CPU alone."""

    units: int
    cards: int
    wishes: Wishes
    weight: float
    allows: Callable[[Wishes, str], bool]

    def usable(self, cards: Sequence[Card]) -> int:
        holding = [free for free, _, model in cards if free >= self.units and self.allows(self.wishes, model)]
        return sum(holding) if len(holding) >= self.cards else 0


class _Stranded:
    """Units that stay unused of an amount of free memory beside an amount of free CPU; memory in parts of a ``card``."""

    def __init__(self, classes: Sequence[tuple[PodClass, float]], card: int) -> None:
        self._part = card / _CARD_PARTS
        moves: dict[tuple[int, int, int], float] = defaultdict(float)
        for one, count in classes:
            cpu, parts = ceil(one.cpu_milli / _CPU_STEP), one.size / self._part
            less, needed = int(parts), ceil(parts)
            moves[cpu, less, needed] += count * (needed - parts if needed > less else 1)
            if needed > less:
                moves[cpu, needed, needed] += count * (parts - less)
        # A class that takes nothing would never end the filling.
        self._moves = [(cpu, parts or int(not cpu), needed, count) for (cpu, parts, needed), count in moves.items()]
        self._table: list[list[float]] = []

    def value(self, cpu_milli: int, free: int) -> float:
        """Beyond the widest table more CPU is of no more use, and as much of each further card is stranded as of the last."""
        cpu, parts = min(cpu_milli // _CPU_STEP, _MOST_CPU_STEPS - 1), free / self._part
        further = max(ceil((parts + 2 - _MOST_PARTS) / _CARD_PARTS), 0)
        parts -= further * _CARD_PARTS
        if cpu >= len(self._table) or int(parts) + 2 > len(self._table[0]):
            self._fill(cpu + 1, int(parts) + 2)
        row = self._table[cpu]
        found = _between(row, parts)
        return found + further * (found - _between(row, parts - _CARD_PARTS)) if further else found

    def _fill(self, cpus: int, parts: int) -> None:
        """For at least this many steps: the next power of two, so that it is seldom done."""
        wide = len(self._table[0]) if self._table else 0
        cpus = max(len(self._table), min(1 << (cpus - 1).bit_length(), _MOST_CPU_STEPS))
        parts = max(wide, min(1 << (parts - 1).bit_length(), _MOST_PARTS))
        table: list[list[float]] = []
        for cpu in range(cpus):
            row = [0.0] * parts
            table.append(row)
            moves = [
                (table[cpu - needs], takes, needed, count)
                for needs, takes, needed, count in self._moves
                if needs <= cpu
            ]
            for free in range(parts):
                weight = left = 0.0
                for after, takes, needed, count in moves:
                    if needed <= free:
                        weight += count
                        left += count * after[free - takes]
                row[free] = left / weight if weight else free * self._part
        self._table = table


def _between(row: Sequence[float], at: float) -> float:
    """A value between two of the row."""
    low = int(at)
    return row[low] + (at - low) * (row[low + 1] - row[low])


def cards_of(node: NodeInfo) -> tuple[Card, ...]:
    """The healthy cards, in an order that is the same for equal ones."""
    return tuple(sorted((device.free, device.total, device.model) for device in node.devices if device.healthy))
