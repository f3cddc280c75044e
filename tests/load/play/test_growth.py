"""How figures grow with the cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from load.play import pictures
from load.play.growth import Cell, bytes_a_pod, cells, promises, row, text


def run(
    nodes: int, names: int, p50: float, *, floor: float = 0.5, failures: int = 0, rss: float = 50.0
) -> dict[str, Any]:
    """The results of a run, as far as curves and comparisons read them."""
    cuts = {"p50": p50, "p95": 2 * p50, "p99": 3 * p50, "p999": None}
    over = {f"{cut}_over_floor": value / floor for cut, value in cuts.items() if value is not None} | {
        "p999_over_floor": None
    }
    filtered = {
        "extender": "gpushare",
        "verb": "filter",
        "count": 100,
        "failures": failures,
        "bytes": 900.0,
        "fit": 0.53,
        "max": 9.0,
    }
    return {
        "machine": {"cpus": 2, "load_before": p50},
        "cluster": {"nodes": nodes},
        "order": {"names": names, "seconds": 10, "shape": "steady", "rate": 20, "tls": False},
        "outcome": {"counts": {"running": 10 * nodes, "binds": 200}, "samples": [{"at": 1.0, "rss_mib": rss}]},
        "rows": [filtered | cuts | over],
    }  # fmt: skip


def rows(largest: float, failures: int = 0) -> list[dict[str, Any]]:
    """Curves of three sizes; on the largest the median is this many ms."""
    found = [(100, 0.9, 41.0), (1000, 1.0, 50.0), (15_000, largest, 190.0)]
    return [
        row(run(nodes, 100, p50, failures=failures, rss=rss), Cell(nodes, names, 100))
        for nodes, p50, rss in found
        for names in (100, 0)
    ]


def test_each_size_runs_with_fixed_and_real_numbers_of_names() -> None:
    """On one cluster also with more names and with more events; none is run twice."""
    found = cells([100, 1000, 15_000], 100)

    assert {(cell.nodes, cell.names) for cell in found} >= {
        (nodes, names) for nodes in (100, 1000, 15_000) for names in (100, 0)
    }
    assert {cell.names for cell in found if cell.nodes == 1000} == {0, 50, 100, 200, 400}
    assert {cell.events for cell in found if cell.nodes == 1000 and not cell.names} == {0, 100, 500}
    assert {cell.fit for cell in found if cell.nodes == 1000} == {None, 1.0, 0.5, 0.0}
    assert len(set(found)) == len(found)


@pytest.mark.parametrize(
    ("largest", "failures", "kept"), [(1.4, 0, [True, True]), (1.6, 0, [False, True]), (1.4, 2, [True, False])]
)
def test_latency_must_not_grow_with_the_cluster(largest: float, failures: int, kept: list[bool]) -> None:
    """The median for a fixed number of names grows only so much from 1,000 nodes to the largest cluster, and no question fails."""
    assert [promise.is_kept for promise in promises(rows(largest, failures))] == kept


def test_growth_that_was_not_measured_is_named() -> None:
    """A run without a cluster of 1,000 nodes has no figure of growth, which the text reports."""
    small = [row(run(100, 100, 1.0), Cell(100, 100, 100))]

    assert promises(small)[0].is_kept is None
    assert "not measured" in text(small)
    assert "53%" in text(small)
    assert bytes_a_pod(small) is None


def test_memory_is_a_line_over_pods() -> None:
    """The slope of the line is the memory of a pod in bytes."""
    assert bytes_a_pod(rows(1.0)) == pytest.approx((190 - 50) * 1024 * 1024 / 140_000, rel=0.05)


def test_curves_are_drawn(tmp_path: Path) -> None:
    """The curves are drawn as an SVG and as a PNG."""
    if not pictures.can_draw():
        pytest.skip("matplotlib is missing (pip install '.[bench]')")
    fits = [row(run(1000, 420, 1 + fit), Cell(1000, 0, 100, fit)) for fit in (1.0, 0.5, 0.0)]
    paths = pictures.draw_growth([*rows(1.2), *fits], tmp_path)

    assert [path.name for path in paths] == ["curves.svg", "curves.png"]
    assert all(path.stat().st_size > 10_000 for path in paths)
