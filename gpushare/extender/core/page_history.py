"""The part of the page about the past: the last decisions about pods, and one hour of numbers, a point each minute.

Pure: in memory alone, and gone with the process.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from typing import Final, NamedTuple

# Decisions that are kept: a screen or two, and some kB.
MOST_DECISIONS: Final = 60

# A reason may quote a caller: its beginning is kept.
MOST_CHARACTERS: Final = 300

SECONDS_A_POINT: Final = 60.0
MOST_POINTS: Final = 60

BOUND: Final = "bound"
REFUSED: Final = "refused"
NOT_BOUND: Final = "not bound"
PREEMPTED: Final = "preemption"


class Decision(NamedTuple):
    """One decision, which came ``times``; ``detail`` is a node, a reason or a count.

    ``at`` is when it came last, ``first`` when it came first, in whole seconds of a monotonic clock.
    """

    at: int
    outcome: str
    namespace: str
    name: str
    detail: str
    times: int = 1
    first: int = 0


class Decisions:
    """The newest ones, and how many pods were bound since the start."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, ...], Decision] = OrderedDict()
        self.bound = 0

    def note(self, at: float, outcome: str, namespace: str, name: str, detail: str) -> None:
        """A pod has this outcome, one of the constants of this module. The same once more is kept as one."""
        self.bound += outcome == BOUND
        key = (outcome, namespace, name, detail[:MOST_CHARACTERS])
        before = self._kept.pop(key, None)
        times, first = (1, int(at)) if before is None else (before.times + 1, before.first)
        self._kept[key] = Decision(int(at), *key, times, first)
        if len(self._kept) > MOST_DECISIONS:
            self._kept.popitem(last=False)

    def newest(self) -> tuple[Decision, ...]:
        """The kept ones, the newest first."""
        return tuple(reversed(self._kept.values()))


class Point(NamedTuple):
    """The numbers at one moment, in MiB and pods; ``bound`` are those of the minute before."""

    at: int
    booked: int
    free: int
    largest: int
    waiting: int
    bound: int


class Trends:
    """The points, oldest first."""

    def __init__(self) -> None:
        self._points: deque[Point] = deque(maxlen=MOST_POINTS)
        self._bound = 0
        self._due = -math.inf

    def is_due(self, now: float) -> bool:
        """Is a minute over since the last point?"""
        return now >= self._due

    def add(self, now: float, *, booked: int, free: int, largest: int, waiting: int, bound: int) -> None:
        """One more point; ``bound`` are the pods that were bound since the start of the process."""
        self._points.append(Point(int(now), booked, free, largest, waiting, bound - self._bound))
        self._bound = bound
        self._due = now + SECONDS_A_POINT

    def points(self) -> tuple[Point, ...]:
        """All of them."""
        return tuple(self._points)
