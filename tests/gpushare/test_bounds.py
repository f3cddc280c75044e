"""Bounds of what comes from outside."""

from __future__ import annotations

from gpushare.bounds import Bound


def test_a_bound_takes_its_most_and_no_more() -> None:
    """The largest amount that is taken is the one that the refusal names."""
    bound = Bound("a list", 3, "entries")

    assert [bound.exceeded(amount) for amount in (0, 3, 4)] == [False, False, True]
    assert bound.refusal == "a list is limited to 3 entries"
