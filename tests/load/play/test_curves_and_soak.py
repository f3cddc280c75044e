"""The shapes ``curves`` and ``soak``: what they judge, and one short run of each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from load.__main__ import main
from load.load_commands import CLUSTERS
from load.play import curves, soak
from load.play.curves import bytes_a_pod, row, text


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
    assert [promise.is_kept for promise in curves.promises(rows)] == kept
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


def a_run(
    *,
    mib_an_hour: float = 0.0,
    drift: float = 0.0,
    failures: int = 0,
    failed: int = 0,
    rate: int = 40,
    jump: int = 300,
    samples: int = 1800,
) -> dict[str, Any]:
    """Half an hour with a sample a second, an audit every half minute, and memory that jumps in this second."""
    found = [
        {"at": second, "cpu_seconds": 1.0, "rss_mib": (60 if second < jump else 80) + mib_an_hour * second / 3600}
        | (
            {"drift_units": drift * (second == 899), "audits": second / 30, "failed_audits": failed}
            if second % 30 == 29
            else {}
        )
        for second in range(samples)
    ]
    return {
        "order": {"rate": rate, "seconds": 1800},
        "outcome": {"samples": found, "counts": {"running": 2000}},
        "rows": [{"extender": "gpushare", "verb": "filter", "failures": failures}],
    }


@pytest.mark.parametrize(
    ("run", "what"),
    [
        # Memory that is filled at first and then stays is flat.
        (a_run(mib_an_hour=3.9), []),
        (a_run(mib_an_hour=5), ["memory"]),
        (a_run(drift=1), ["units"]),
        (a_run(failures=1), ["questions"]),
        (a_run(failed=1), ["audits"]),
        # The tables fill later if few pods come a second: the extender remembers 10,000 pods that ended, and 2,000 pods of the
        # beginning are replaced.
        (a_run(rate=20, jump=599), []),
        (a_run(rate=20, jump=700), ["memory"]),
        # Too few come in the whole of it.
        (a_run(rate=9), ["memory"]),
        # An amount that was not measured is not kept.
        (a_run(samples=1), ["memory", "units", "audits"]),
    ],
)
def test_what_is_wrong_breaks_its_promise_alone(run: dict[str, Any], what: list[str]) -> None:
    """A leak, one audit of sixty that found something, one question."""
    assert [one.what.partition(" ")[0] for one in soak.promises(run) if not one.is_kept] == what


@pytest.mark.exhaustive("a soak takes twenty seconds")
def test_a_short_soak_audits_the_book_and_finds_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pods come and go for some seconds; too few to show whether memory is flat, which is exit code 1."""
    # The extender audits its book after 12 seconds at the latest.
    monkeypatch.setattr(soak, "AUDIT_SECONDS", 10)
    flags = ["--seconds", "13", "--cluster", str(CLUSTERS / "nodes-100.yaml"), "-o", str(tmp_path)]
    assert main(["run", "--shape", "soak", *flags]) == 1

    run = json.loads((tmp_path / "soak" / "load.json").read_text())
    assert [one["kept"] for one in run["verdicts"]] == [False, True, True, True, True]
    assert "not measured" in run["verdicts"][0]["text"]
    assert max(one.get("audits", 0) for one in run["outcome"]["samples"]) >= 1
