"""Promises of gpushare.extender.core.trends."""

from __future__ import annotations

from gpushare.extender.core.trends import MOST_POINTS, Point, Trends


def add(trends: Trends, now: float, bound: int = 0, refused: int = 0) -> None:
    """A point with these counts."""
    counts = {"bound": bound, "refused": refused}
    trends.add(now, booked=1, free=2, total=3, largest=4, waiting=5, counts=counts)


def test_a_point_is_due_once_a_minute() -> None:
    """The first is due immediately."""
    trends = Trends()
    assert trends.is_due(100)
    add(trends, 100.7)
    assert [trends.is_due(now) for now in (100.7, 160.6, 160.7)] == [False, False, True]


def test_a_point_has_the_decisions_of_its_minute() -> None:
    """Counts since the start of the process become counts of each minute."""
    trends = Trends()
    add(trends, 100.7, bound=3, refused=1)
    add(trends, 160.7, bound=5, refused=1)

    assert trends.points() == (Point(100, 1, 2, 3, 4, 5, 3, 1), Point(160, 1, 2, 3, 4, 5, 2, 0))


def test_the_trends_keep_one_hour() -> None:
    """The oldest point goes."""
    trends = Trends()
    for minute in range(MOST_POINTS + 1):
        add(trends, 60.0 * minute)

    assert [point.at for point in trends.points()] == [60 * minute for minute in range(1, 61)]
