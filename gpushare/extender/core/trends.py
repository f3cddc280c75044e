"""One hour of the page's numbers, a point each minute. Pure: in memory alone, and gone with the process."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from typing import Final, NamedTuple

from gpushare.extender.core.decisions import BOUND, REFUSED

SECONDS_A_POINT: Final = 60.0
MOST_POINTS: Final = 60


class Point(NamedTuple):
    """The numbers at one moment, in MiB and pods; ``bound`` and ``refused`` are of the minute before."""

    at: int
    booked: int
    free: int
    total: int
    largest: int
    waiting: int
    bound: int
    refused: int


class Trends:
    """The points, oldest first."""

    def __init__(self) -> None:
        self._points: deque[Point] = deque(maxlen=MOST_POINTS)
        self._counted: Mapping[str, int] = {}
        self._due = -math.inf

    def is_due(self, now: float) -> bool:
        """Is a minute over since the last point?"""
        return now >= self._due

    def add(
        self, now: float, *, booked: int, free: int, total: int, largest: int, waiting: int, counts: Mapping[str, int]
    ) -> None:
        """One more point; ``counts`` are of decisions since the start of the process."""
        bound, refused = (counts[one] - self._counted.get(one, 0) for one in (BOUND, REFUSED))
        self._points.append(Point(int(now), booked, free, total, largest, waiting, bound, refused))
        self._counted = dict(counts)
        self._due = now + SECONDS_A_POINT

    def points(self) -> tuple[Point, ...]:
        """All of them."""
        return tuple(self._points)
