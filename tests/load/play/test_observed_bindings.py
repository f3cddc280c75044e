"""Promises of load.play.results about binds."""

from __future__ import annotations

import pytest

from load.play.results import Record, broken_promises


def order(extender: str, node: str, refused: str = "", wrong: str = "", pod: str = "p") -> Record:
    """The record of an order to bind."""
    return Record(1.0, "bind", extender, 1.0, 2, refused, wrong, None, pod, node)


KEPT = {
    "made as ordered": ([order("x", "a")], "a"),
    "refused and not made": ([order("x", "a", "full")], ""),
    "refused, then made by another": ([order("x", "a", "full"), order("y", "b")], "b"),
    "the answer was lost, and it was made": ([order("x", "a", wrong="no answer"), order("x", "b", "bound")], "a"),
    "the answer was lost, and it was not made": ([order("x", "a", wrong="no answer")], ""),
}


@pytest.mark.parametrize(("asked", "node"), KEPT.values(), ids=KEPT.keys())
def test_true_reports_of_binds_break_nothing(asked: list[Record], node: str) -> None:
    """The API server has what the extenders reported."""
    assert broken_promises(asked, {"p": node} if node else {}) == []


BROKEN = {
    "reported, not made": ([order("x", "a")], "", "each reported bind is made; x: 1 were not (p on a)"),
    "made elsewhere": (
        [order("x", "a")], "b", "each bind is made on the node of its order; x: 1 were not (p is on b, not on a)",
    ),
    "made by another": (
        [order("x", "a"), order("y", "b")], "b", "each reported bind is made; x: 1 were not (p on a)",
    ),
    "reported twice": ([order("x", "a"), order("y", "a")], "a", "each reported bind is made; y: 1 were not (p on a)"),
    "refused, but made": ([order("x", "a", "full")], "a", "each refused bind is left unmade; x: 1 were not (p is on a)"),
}  # fmt: skip


@pytest.mark.parametrize(("asked", "node", "line"), BROKEN.values(), ids=BROKEN.keys())
def test_each_false_report_of_a_bind_is_named(asked: list[Record], node: str, line: str) -> None:
    """The line about a false report names the extender that made it, and an example."""
    assert broken_promises(asked, {"p": node} if node else {}) == [f"BROKEN  {line}"]


def test_false_reports_are_counted_by_extender() -> None:
    """Requests other than orders to bind do not matter."""
    records = [order("x", "a", pod="p"), order("x", "a", pod="q"), Record(1.0, "filter", "x", 1.0, 2, "", "", 1.0)]

    (line,) = broken_promises(records, {})

    assert line == "BROKEN  each reported bind is made; x: 2 were not (p on a)"
