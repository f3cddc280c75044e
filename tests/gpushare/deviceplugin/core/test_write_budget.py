"""Promises of gpushare.deviceplugin.core.write_budget."""

from __future__ import annotations

from gpushare.deviceplugin.core.write_budget import WriteBudget


def test_a_pod_is_written_a_few_times_a_minute() -> None:
    """However often it changes: eight writes within any minute, and others have their own; the memory is that of a minute."""
    budget = WriteBudget(8)
    taken = [second for second in range(180) if budget.take("a", float(second))]

    assert taken == [*range(8), *range(60, 68), *range(120, 128)]
    assert (budget.take("b", 179.0), budget.spent(179.0), budget.spent(179.9 + 60)) == (True, {"a"}, frozenset())
    for second in range(1000):
        budget.take(str(second), float(second))
    assert len(vars(budget)["_times"]) <= 61
