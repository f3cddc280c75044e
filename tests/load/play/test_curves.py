"""The shape ``curves``: how figures grow with the cluster, and one run of it on the smallest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from load.__main__ import main
from load.play import curves
from load.play.curves import Cell, bytes_a_pod, cells, promises, row, text


def a_row(nodes: int, names: int, p50: float, failures: int = 0, rss: float = 50.0) -> dict[str, Any]:
    """The point of a run with 100 names in each question; the server that does nothing takes half a millisecond."""
    filtered = {"extender": "gpushare", "verb": "filter", "failures": failures, "bytes": 900.0, "fit": 0.53}
    cuts = {"p50": p50, "p95": 2 * p50, "p99": 3 * p50, "p50_over_floor": 2 * p50, "p99_over_floor": 6 * p50}
    outcome = {"counts": {"running": 10 * nodes, "binds": 200}, "samples": [{"rss_mib": rss}]}
    run = {"order": {"names": 100, "seconds": 10}, "outcome": outcome, "rows": [filtered | cuts]}
    return row(run, Cell(nodes, names, 100))


def rows(largest: float, failures: int = 0) -> list[dict[str, Any]]:
    """Curves of three sizes; on the largest the median is this many ms."""
    found = [(100, 0.9, 41.0), (1000, 1.0, 50.0), (15_000, largest, 190.0)]
    return [a_row(nodes, names, p50, failures, rss) for nodes, p50, rss in found for names in (100, 0)]


def test_each_size_runs_with_fixed_and_real_numbers_of_names() -> None:
    """On one cluster also with more names and with more events; none is run twice."""
    found = cells([100, 1000, 15_000], 100)
    on_middle = [cell for cell in found if cell.nodes == 1000]

    assert {(cell.nodes, cell.names) for cell in found} >= {
        (n, names) for n in (100, 1000, 15_000) for names in (100, 0)
    }
    assert {cell.names for cell in on_middle} == {0, 50, 100, 200, 400}
    assert {cell.events for cell in on_middle if not cell.names} == {0, 100, 500}
    assert {cell.fit for cell in on_middle} == {None, 1.0, 0.5, 0.0}
    assert len(set(found)) == len(found)


@pytest.mark.parametrize(
    ("largest", "failures", "kept"), [(1.4, 0, [True, True]), (1.6, 0, [False, True]), (1.4, 2, [True, False])]
)
def test_latency_must_not_grow_with_the_cluster(largest: float, failures: int, kept: list[bool]) -> None:
    """The median for a fixed number of names grows only so much from 1,000 nodes to the largest cluster, and no question fails."""
    assert [promise.is_kept for promise in promises(rows(largest, failures))] == kept


def test_growth_that_was_not_measured_is_named() -> None:
    """A run without a cluster of 1,000 nodes has no figure of growth, which the text reports, nor a slope of memory."""
    small = [a_row(100, 100, 1.0)]

    assert promises(small)[0].is_kept is None
    assert "not measured" in text(small)
    assert "53%" in text(small)
    assert bytes_a_pod(small) is None
    assert bytes_a_pod(rows(1.0)) == pytest.approx((190 - 50) * 1024 * 1024 / 140_000, rel=0.05)


@pytest.mark.exhaustive("two runs of five seconds")
def test_the_curves_of_one_cluster_are_measured_and_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder for each run, all rows in one file, and a picture if matplotlib is there."""
    monkeypatch.setattr(curves, "SIZES", (100,))
    monkeypatch.setattr(curves, "cells", lambda sizes, fixed: [Cell(sizes[0], 50, 100), Cell(sizes[0], 0, 0, 0.5)])
    assert main(["run", "--shape", "curves", "--seconds", "5", "-o", str(tmp_path)]) == 0

    found = json.loads((tmp_path / "curves" / "curves.json").read_text())
    assert [(one["nodes"], one["names"], one["events"], one["failures"]) for one in found["rows"]] == [
        (100, 50, 100, 0),
        (100, 100, 0, 0),
    ]
    assert (tmp_path / "curves" / "100-nodes-window-names-0-events-50-percent-fit" / "load.json").exists()
    pytest.importorskip("matplotlib")
    assert (tmp_path / "curves" / "curves.svg").stat().st_size > 10_000
