"""Promises of gpushare.extender.core.page_history."""

from __future__ import annotations

from gpushare.extender.core.page_history import (
    BOUND,
    MOST_CHARACTERS,
    MOST_DECISIONS,
    MOST_POINTS,
    REFUSED,
    Decision,
    Decisions,
    Point,
    Trends,
)


def test_the_same_decision_again_is_one() -> None:
    """It comes first again, with the whole second, how often it came, and when first; it does not push others out."""
    decisions = Decisions()
    decisions.note(1.9, BOUND, "ns", "q", "n, card 0")
    for at in range(2, 2 + 2 * MOST_DECISIONS):
        decisions.note(at, REFUSED, "ns", "p", "full")

    last = 1 + 2 * MOST_DECISIONS
    assert decisions.newest() == (
        Decision(last, REFUSED, "ns", "p", "full", 2 * MOST_DECISIONS, 2),
        Decision(1, BOUND, "ns", "q", "n, card 0", 1, 1),
    )
    assert decisions.bound == 1


def test_old_decisions_are_dropped_and_still_counted() -> None:
    """The kept ones are bounded, in number and in size."""
    decisions = Decisions()
    for at in range(MOST_DECISIONS + 2):
        decisions.note(at, BOUND, "ns", f"p{at}", "x" * (MOST_CHARACTERS + 1))

    assert [one.at for one in decisions.newest()] == [*reversed(range(2, MOST_DECISIONS + 2))]
    assert {len(one.detail) for one in decisions.newest()} == {MOST_CHARACTERS}
    assert decisions.bound == MOST_DECISIONS + 2


def add(trends: Trends, now: float, bound: int = 0) -> None:
    """A point after this number of binds."""
    trends.add(now, booked=1, free=2, largest=4, waiting=5, bound=bound)


def test_a_point_has_the_binds_of_its_minute() -> None:
    """The first point is due immediately, then one a minute; binds since the start become binds of each minute."""
    trends = Trends()
    assert trends.is_due(100)
    add(trends, 100.7, bound=3)
    assert [trends.is_due(now) for now in (100.7, 160.6, 160.7)] == [False, False, True]
    add(trends, 160.7, bound=5)

    assert trends.points() == (Point(100, 1, 2, 4, 5, 3), Point(160, 1, 2, 4, 5, 2))


def test_the_trends_keep_one_hour() -> None:
    """The oldest point goes."""
    trends = Trends()
    for minute in range(MOST_POINTS + 1):
        add(trends, 60.0 * minute)

    assert [point.at for point in trends.points()] == [60 * minute for minute in range(1, 61)]
