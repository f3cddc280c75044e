"""The pure parts of a run: when pods come, figures of its records, bounds, and what extenders reported of binds."""

from __future__ import annotations

from pathlib import Path

import pytest

from load.load_commands import read_data
from load.play.load_plan import BURST_PODS, SHAPES, weighed, weights_of
from load.play.results import FLOOR, Bounds, Record, broken_promises, failures, judge, rows
from load.replay.trace import SAMPLE, creation_times


def test_shapes_bring_the_pods_that_were_asked_for() -> None:
    """The mean of a day is its rate; a burst is a Deployment of 1,000 more, once."""
    totals = {
        name: [sum(part) for part in zip(*(shape(second, 20.0, 60.0) for second in range(60)), strict=True)]
        for name, shape in SHAPES.items()
    }

    assert totals["steady"] == [pytest.approx(1200), 0]
    assert totals["burst"] == [pytest.approx(1200), BURST_PODS]
    assert totals["diurnal"] == [pytest.approx(1200), 0]
    day = [SHAPES["diurnal"](second, 20.0, 60.0).rate for second in range(60)]
    assert (min(day), max(day)) == (pytest.approx(4), pytest.approx(36))


def test_a_trace_comes_in_the_time_of_a_run() -> None:
    """The requested number, in the seconds in which its pods came: a burst is still one, and an empty second stays empty."""
    weights = weights_of([1000, 1000, 1000, 1300, 2000], 10)
    shape = weighed(weights)
    assert [round(shape(second, 5.0, 10).rate, 6) for second in range(11)] == [30, 0, 0, 10, 0, 0, 0, 0, 0, 10, 0]
    assert weights_of([7], 3) == [3, 0, 0]

    sample = weights_of(creation_times(SAMPLE, "default"), 60)
    assert sum(sample) == pytest.approx(60)
    assert max(sample) > 3 * sorted(sample)[30]


RECORDS = [
    *(Record(100.0 + at / 10, "filter", "gpushare", float(at + 1), 500, "", "") for at in range(20)),
    *(Record(100.0 + at / 10, FLOOR, "gpushare", 0.5, 500, "", "") for at in range(20)),
    Record(101.0, "bind", "gpushare", 0.1, 12, "", "status 500"),
    Record(101.2, "bind", "gpushare", 4.0, 12, "no card has room", ""),
    Record(101.5, "filter", "http://other", 30.0, 900, "", ""),
    Record(101.6, FLOOR, "http://other", 3.0, 900, "", ""),
]


def test_figures_are_of_each_verb_of_each_extender() -> None:
    """Percentiles in ms, and over what the server that does nothing took."""
    found = {(row["extender"], row["verb"]): row for row in rows(RECORDS, 2.0)}

    ours_and_theirs = {("gpushare", "filter"), ("gpushare", "bind"), ("http://other", "filter")}
    assert found.keys() == ours_and_theirs | {("gpushare", FLOOR), ("http://other", FLOOR)}
    ours = found["gpushare", "filter"]
    assert (ours["count"], ours["per_second"], ours["p50"], ours["p99"], ours["max"]) == (20, 10.0, 10.0, 20.0, 20.0)
    assert (ours["p50_over_floor"], ours["p999"], ours["p999_over_floor"]) == (20.0, None, None)
    bind = found["gpushare", "bind"]
    assert (bind["failures"], bind["refused"], bind["p50"]) == (1, 1, 4.0)
    assert found["http://other", "filter"]["p50_over_floor"] == 10.0
    assert [one["wrong"] for one in failures(RECORDS)] == ["status 500", "no card has room"]
    # The mean of the questions for which the share of fitting nodes was reported.
    told = [Record(1.0, "filter", "x", 1.0, 5, "", "", fit) for fit in (0.25, 0.75, None)]
    assert (rows(told, 1.0)[0]["fit"], ours["fit"]) == (0.5, None)


def bounds(path: Path, *lines: str) -> Path:
    """A file of bounds."""
    path.write_text("bounds:\n" + "".join(f"  - {{{line}}}\n" for line in lines))
    return path


def test_bounds_are_judged_by_ratio(tmp_path: Path) -> None:
    """Over the server that does nothing, or over another extender; a broken bound is printed with its excess.

    By default answers are judged of all and times of ours; to names others, all, or one; an absent one is not measured.
    """
    path = bounds(
        tmp_path / "bounds.yaml",
        "verb: filter, figure: p50, most: 20",
        "verb: filter, figure: p99, most: 32",
        "verb: filter, figure: p50, most: 0.5, over: 'http://other'",
        "verb: bind, figure: failures, most: 0",
        "verb: inspect, figure: p50, most: 9",
        "verb: bind, figure: refused, most: 0.4",
        "verb: filter, figure: failures, most: 0",
        "verb: filter, figure: p50, most: 31, to: others",
        "verb: filter, figure: p50, most: 32, to: all",
        "verb: bind, figure: failures, most: 9, to: gpushare",
        "verb: filter, figure: p50, most: 33, to: 'http://other'",
        "verb: filter, figure: p50, most: 34, to: absent",
    )
    assert [verdict.text() for verdict in judge(read_data(path, Bounds).bounds, rows(RECORDS, 2.0), "gpushare")] == [
        "kept    filter p50: 20, at most 20 x floor",
        "BROKEN  filter p99: 40, at most 32 x floor, 25% above it",
        "kept    filter p50: 0.3333, at most 0.5 x http://other",
        "BROKEN  bind failures: 1, at most 0",
        "BROKEN  inspect p50: not measured, at most 9 x floor",
        "BROKEN  bind refused: 0.5, at most 0.4, 25% above it",
        "kept    filter failures: 0, at most 0",
        "kept    filter p50: 20, at most 32 x floor",
        "kept    bind failures: 1, at most 9",
        "kept    http://other filter failures: 0, at most 0",
        "kept    http://other filter p50: 10, at most 31 x floor",
        "kept    http://other filter p50: 10, at most 32 x floor",
        "kept    http://other filter p50: 10, at most 33 x floor",
        "BROKEN  absent filter p50: not measured, at most 34 x floor",
    ]


def order(extender: str, node: str, refused: str = "", wrong: str = "", pod: str = "p") -> Record:
    """The record of an order to bind."""
    return Record(1.0, "bind", extender, 1.0, 2, refused, wrong, None, pod, node)


_LOST = order("x", "a", wrong="no answer")
REPORTS = {
    "made as ordered": ([order("x", "a")], "a", ""),
    "refused and not made": ([order("x", "a", "full")], "", ""),
    "refused, then made by another": ([order("x", "a", "full"), order("y", "b")], "b", ""),
    "the answer was lost, and it was made": ([_LOST, order("x", "b", "bound")], "a", ""),
    "the answer was lost, and it was not made": ([_LOST], "", ""),
    "reported, not made": ([order("x", "a")], "", "each reported bind is made; x: 1 were not (p on a)"),
    "made elsewhere": (
        [order("x", "a")], "b", "each bind is made on the node of its order; x: 1 were not (p is on b, not on a)",
    ),
    "made by another": (
        [order("x", "a"), order("y", "b")], "b", "each reported bind is made; x: 1 were not (p on a)",
    ),
    "reported twice": ([order("x", "a"), order("y", "a")], "a", "each reported bind is made; y: 1 were not (p on a)"),
    "refused, but made": ([order("x", "a", "full")], "a", "each refused bind is left unmade; x: 1 were not (p is on a)"),
    "two of one extender, beside a request that is no order": (
        [order("x", "a"), order("x", "a", pod="q"), Record(1.0, "filter", "x", 1.0, 2, "", "", 1.0)], "",
        "each reported bind is made; x: 2 were not (p on a)",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("asked", "node", "line"), REPORTS.values(), ids=REPORTS.keys())
def test_each_false_report_of_a_bind_is_named(asked: list[Record], node: str, line: str) -> None:
    """The line names the extender that made the report, and an example; there is none if the API server has what was reported."""
    assert broken_promises(asked, {"p": node} if node else {}) == ([f"BROKEN  {line}"] if line else [])
