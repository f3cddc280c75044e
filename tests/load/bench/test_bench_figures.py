"""Percentiles, ratios, targets, and the text made of them."""

from __future__ import annotations

from typing import Any

import pytest

from load.bench.bench_figures import (
    EXTENDER,
    NOTHING,
    over_nothing,
    percentile,
    ratio,
    round_medians,
    summary,
    targets,
    text,
)


def row(server, p50, p99, *, names=500, events=0.0, with_tls=False, pause_ms=1.0) -> dict[str, Any]:
    return {
        "server": server, "nodes": 5000, "names": names, "fit": "half", "events": events, "with_tls": with_tls,
        "pause_ms": pause_ms, "p50": p50, "rounds_p50": [p50], "p99": p99, "p999": None, "cpu_microseconds": None,
        "answer_bytes": 10.0,
    }  # fmt: skip


RUN: dict[str, Any] = {
    "filter": [
        row(EXTENDER, 400.0, 600.0),
        row(NOTHING, 100.0, 150.0),
        row(EXTENDER, 500.0, 1300.0, events=500.0),
        row(NOTHING, 100.0, 700.0, events=500.0),
        row(EXTENDER, 1300.0, 1500.0, names=5000),
        row(NOTHING, 100.0, 200.0, names=5000),
        # Over TLS the plain one is asked once more; it is no evidence for the targets.
        row(EXTENDER, 9000.0, 9000.0, with_tls=True),
        row(NOTHING, 1.0, 1.0, with_tls=True),
        # Without a pause: to be compared with, and no evidence either.
        row(EXTENDER, 300.0, 350.0, pause_ms=0.0),
        row(NOTHING, 30.0, 50.0, pause_ms=0.0),
    ],
    "machine": {"load_before": 0.1, "cpus": 2},
    "bind": [],
    "sync": [
        {"nodes": 5000, "pods": 50_000, "server": EXTENDER, "start_seconds": 0.5, "seconds": 9.0}
        | {"rss_mib": 200.0, "peak_mib": 260.0}
    ],
    "device_list": {},
    "left_out": ["the sea"],
}
LISTED = {"first_seconds": 0.25, "list_mib": 120.0, "rest_mib": 61.0}


@pytest.mark.parametrize(("share", "found"), [(0.5, 50), (0.99, 99), (0.999, 100), (1.0, 100), (0.0, 1)])
def test_a_percentile_is_a_time_that_was_measured(share, found) -> None:
    """The nearest rank, not something between two; of no times there is none."""
    assert percentile(list(range(100, 0, -1)), share) == found
    with pytest.raises(ValueError, match="no times"):
        percentile([], share)


def test_a_per_mille_needs_a_thousand_values() -> None:
    """Fewer times say nothing of it."""
    assert summary([1.0] * 999)["p999"] is None
    assert summary([1.0] * 999 + [5.0, 5.0])["p999"] == 5.0


@pytest.mark.parametrize(
    ("one", "floor", "found"),
    [(6.0, 2.0, 3.0), (None, 2.0, None), (6.0, 0.0, None), (6.0, None, None)],
)
def test_a_ratio_needs_both(one, floor, found) -> None:
    """No number is better than a wrong one."""
    assert ratio({"p50": one}, {"p50": floor}, "p50") == found
    assert ratio({"p50": one}, None, "p50") is None


def test_a_burst_of_other_work_does_not_move_the_ratio() -> None:
    """The ratio of medians is the median of the rounds' ratios."""
    ours = {**row(EXTENDER, 1.0, 1.0), "rounds_p50": [400.0, 4000.0, 440.0, 390.0, 400.0]}
    floor = {**row(NOTHING, 1.0, 1.0), "rounds_p50": [100.0, 100.0, 110.0, 300.0, 100.0]}
    assert over_nothing([ours, floor], ours, "p50") == 4.0
    assert round_medians([1.0] * 50 + [2.0] * 20) == [1.0, 2.0]


@pytest.mark.parametrize(("at", "cut", "found"), [(0, "p50", 4.0), (2, "p99", 1300 / 700), (-2, "p50", 10.0)])
def test_a_figure_is_compared_with_the_floor_of_its_own_cell(at, cut, found) -> None:
    """A figure is compared only with the floor that was asked in turn with it."""
    assert over_nothing(RUN["filter"], RUN["filter"][at], cut) == pytest.approx(found)


def test_targets_are_judged_by_the_cells_that_they_name() -> None:
    """Each promise of the project has its number, and is met or missed; a run without pauses is judged as it is."""
    assert [(target.value, target.is_kept) for target in targets(RUN | {"device_list": LISTED})] == [
        (4.0, True), (4.0, False), (13.0, False), (pytest.approx(1300 / 600), False), (9.0, True), (200.0, True), (260.0, False),
        (0.25, True), (120.0, True), (61.0, False),
    ]  # fmt: skip
    at_once = [one for one in RUN["filter"] if not one["pause_ms"]]
    assert targets({**RUN, "filter": at_once})[0].value == 10.0


def test_what_was_not_measured_is_neither_met_nor_missed() -> None:
    """A run without that world, or without a compiler, prints so, and has no ratios."""
    assert {target.is_kept for target in targets({"filter": [], "sync": [], "device_list": {}})} == {None}
    said = text({**RUN, "filter": [one for one in RUN["filter"] if one["server"] != NOTHING]})
    assert "(ratios)" not in said
    assert "not measured" in said


def test_ratios_come_first() -> None:
    """The text begins with what can be quoted, unless the machine was busy, and ends with what is missing."""
    said = text(RUN)
    ratios, judged, absolute = said.index("(ratios)"), said.index("targets"), said.index("microseconds")
    assert ratios < judged < absolute
    assert said.endswith("the sea")
    assert "4.00" in said[ratios:judged]
    assert "BROKEN  500 names of 5,000 nodes, half fit, quiet: p99: 4, at most 3 x do-nothing C" in said
    assert text({**RUN, "machine": {"load_before": 5.0, "cpus": 2}}).startswith("the machine was busy")
