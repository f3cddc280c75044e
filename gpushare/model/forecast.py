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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from math import ceil
from typing import Final

from gpushare.model.node import NodeInfo
from gpushare.model.wishes import NONE, Wishes

# How much a unit of stranded memory counts beside a unit of fragments.
_STRANDED: Final = 2.0
# A class weighs its number times this power of its size.
_SIZE_POWER: Final = -0.5
# The most classes, and the most that a table looks at: the rest is rare.
MOST_CLASSES: Final = 256
_MOST_TABLE_CLASSES: Final = 64
# Steps of a table: milli-CPUs, and parts of a card; and its size, in steps of CPU and in cards. A larger node is taken for
# several.
_CPU_STEP: Final = 2000
_CARD_PARTS: Final = 20
_CPU_STEPS: Final = 128
_CARDS: Final = 8
# Values of node states that are kept.
_MOST_KNOWN: Final = 20_000

# A healthy card: units free, units in all, model.
Card = tuple[int, int, str]
# The classes of one card that fit by their CPU and their wishes: their units, and the weight of all classes but those before each.
_Single = tuple[list[int], list[float]]
# The classes of several cards with this much CPU: units, cards and wishes, and their weight.
_Several = Mapping[tuple[int, int, Wishes], float]


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


class Forecast:
    """How often each class comes, in any measure. A value: its tables are made when they are asked for, and never change."""

    def __init__(self, counts: Mapping[PodClass, float]) -> None:
        asking = (item for item in counts.items() if item[0].size > 0 and item[1] > 0)
        self.counts: Mapping[PodClass, float] = dict(sorted(asking, key=lambda item: -item[1])[:MOST_CLASSES])
        weights = {one: count * one.size**_SIZE_POWER for one, count in self.counts.items()}
        total = sum(weights.values())
        self._weights = {one: weight / total for one, weight in weights.items()}
        # Which classes have enough CPU depends on which of these values a node's free CPU reaches.
        self._cpus = sorted({one.cpu_milli for one in weights})
        self._singles: dict[tuple[str, int], _Single] = {}
        self._several: dict[int, _Several] = {}
        self._tables: dict[tuple[frozenset[str], int], list[list[float]]] = {}
        # The same node states come with every question.
        self.waste = lru_cache(maxsize=_MOST_KNOWN)(self._waste)

    def _waste(self, cards: tuple[Card, ...], cpu_milli: int | None) -> float:
        """Units of these cards of one node that are expected to stay unused; ``cpu_milli`` is free, None if it is not known."""
        stranded = 0.0 if cpu_milli is None else self.stranded(cards, cpu_milli)
        return self.fragments(cards, cpu_milli) + _STRANDED * stranded

    def fragments(self, cards: Sequence[Card], cpu_milli: int | None) -> float:
        """Units that the next pod could not use: all free ones if it does not fit, else those of the cards that do not hold it."""
        at = len(self._cpus) if cpu_milli is None else bisect_right(self._cpus, cpu_milli)
        found = 0.0
        for free, _, model in cards:
            units, behind = self._singles.get((model, at)) or self._single(model, at)
            found += free * behind[bisect_right(units, free)]
        free_in_all = sum(free for free, _, _ in cards)
        for (units_of_each, number, wishes), weight in self._several_at(at).items():
            holding = [free for free, _, model in cards if free >= units_of_each and wishes.allow_model(model)]
            found += weight * (free_in_all - (sum(holding) if len(holding) >= number else 0))
        return found

    def stranded(self, cards: Sequence[Card], cpu_milli: int) -> float:
        """Units of these cards that stay unused when pods fill the node up."""
        free = sum(free for free, _, _ in cards)
        if not free:
            return 0.0
        models, largest = frozenset(model for _, _, model in cards), max(total for _, total, _ in cards)
        table = self._tables.get((models, largest))
        if table is None:
            allowed = [one for one in self.counts if any(map(one.wishes.allow_model, models))][:_MOST_TABLE_CLASSES]
            table = self._tables[models, largest] = _table({one: self.counts[one] for one in allowed}, largest)
        nodes = ceil(len(cards) / _CARDS)
        row = table[min(cpu_milli // (nodes * _CPU_STEP), _CPU_STEPS - 1)]
        return row[free * _CARD_PARTS // (nodes * largest)] * nodes * largest / _CARD_PARTS

    def _single(self, model: str, at: int) -> _Single:
        never, sizes = 0.0, list[tuple[int, float]]()
        for one, weight in self._weights.items():
            if not self._fits(one, at) or (one.cards == 1 and not one.wishes.allow_model(model)):
                never += weight
            elif one.cards == 1:
                sizes.append((one.units, weight))
        sizes.sort()
        behind = [*accumulate((weight for _, weight in reversed(sizes)), initial=never)][::-1]
        found = self._singles[model, at] = [units for units, _ in sizes], behind
        return found

    def _several_at(self, at: int) -> _Several:
        if at not in self._several:
            weights = self._several[at] = defaultdict(float)
            for one, weight in self._weights.items():
                if one.cards > 1 and self._fits(one, at):
                    weights[one.units, one.cards, one.wishes] += weight
        return self._several[at]

    def _fits(self, one: PodClass, at: int) -> bool:
        """Is its CPU among the first ``at`` values?"""
        return at > 0 and one.cpu_milli <= self._cpus[at - 1]


def _table(counts: Mapping[PodClass, float], card: int) -> list[list[float]]:
    """Parts of a ``card`` that stay unused, by steps of free CPU and by free parts."""
    moves: defaultdict[tuple[int, int], float] = defaultdict(float)
    for one, count in counts.items():
        moves[ceil(one.cpu_milli / _CPU_STEP), ceil(one.size * _CARD_PARTS / card)] += count
    table: list[list[float]] = []
    for cpu in range(_CPU_STEPS):
        row: list[float] = []
        table.append(row)
        near = [(table[cpu - needs], takes, count) for (needs, takes), count in moves.items() if needs <= cpu]
        for free in range(_CARDS * _CARD_PARTS + 1):
            weight = left = 0.0
            for after, takes, count in near:
                if takes <= free:
                    weight += count
                    left += count * after[free - takes]
            row.append(left / weight if weight else free)
    return table


def cards_of(node: NodeInfo) -> tuple[Card, ...]:
    """The healthy cards, in an order that is the same for equal ones."""
    return tuple(sorted((device.free, device.total, device.model) for device in node.devices if device.healthy))
