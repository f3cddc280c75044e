"""The shape ``curves``: how figures grow with the cluster, and one run of it on the smallest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from load.__main__ import main
from load.play import curves
from load.play.curves import bytes_a_pod, promises, row, text


def a_row(nodes: int, p50: float, failures: int = 0, rss: float = 50.0) -> dict[str, Any]:
    """The point of a run with 100 names in each question; the server that does nothing takes half a millisecond."""
    filtered = {"extender": "gpushare", "verb": "filter", "failures": failures, "bytes": 900.0}
    cuts = {"p50": p50, "p95": 2 * p50, "p99": 3 * p50, "p50_over_floor": 2 * p50, "p99_over_floor": 6 * p50}
    outcome = {"counts": {"running": 10 * nodes, "binds": 200}, "samples": [{"rss_mib": rss}]}
    order = {"names": 100, "seconds": 10}
    return row({"cluster": {"nodes": nodes}, "order": order, "outcome": outcome, "rows": [filtered | cuts]})


@pytest.mark.parametrize(
    ("sizes", "failures", "kept"),
    [
        ([(100, 0.9), (1000, 1.0), (15_000, 1.4)], 0, [True, True]),
        ([(100, 0.9), (1000, 1.0), (15_000, 1.6)], 0, [False, True]),
        ([(1000, 1.0), (15_000, 1.4)], 1, [True, False]),
        # Without a cluster of 1,000 nodes there is no growth.
        ([(100, 1.0)], 0, [None, True]),
    ],
)
def test_latency_must_not_grow_with_the_cluster(
    sizes: list[tuple[int, float]], failures: int, kept: list[bool | None]
) -> None:
    """The median for a fixed number of names grows only so much from 1,000 nodes to the largest cluster, and no question fails."""
    rows = [a_row(nodes, p50, failures) for nodes, p50 in sizes]
    assert [promise.is_kept for promise in promises(rows)] == kept
    assert ("not measured" in text(rows)) == (None in kept)


def test_memory_grows_by_bytes_a_pod() -> None:
    """The slope over all sizes; of one size there is none."""
    small, large = a_row(100, 1.0, rss=41.0), a_row(15_000, 1.0, rss=190.0)
    assert bytes_a_pod([small]) is None
    assert bytes_a_pod([small, large]) == pytest.approx((190 - 41) * 1024 * 1024 / 149_000, rel=0.01)


@pytest.mark.exhaustive("two runs of five seconds")
def test_the_curves_of_one_cluster_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder for each run, and all rows in one file; on 100 nodes kube-scheduler sends all names."""
    monkeypatch.setattr(curves, "SIZES", (100,))
    monkeypatch.setattr(curves, "NAMES", 50)
    assert main(["run", "--shape", "curves", "--seconds", "5", "-o", str(tmp_path)]) == 0

    rows = json.loads((tmp_path / "curves" / "curves.json").read_text())["rows"]
    assert [(one["names"], one["failures"]) for one in rows] == [(50, 0), (100, 0)]
    assert (tmp_path / "curves" / "100-nodes-50-names" / "load.json").exists()
