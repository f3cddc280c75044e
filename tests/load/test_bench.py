"""The bench from flags to file, as small as it can be. No time that it measures is judged."""

from __future__ import annotations

import json
import shutil
from collections import defaultdict

import pytest

from load.bench.__main__ import run as measure
from load.bench.bench_plan import Cell, Plan

FIGURES = {"p50", "p99", "p999", "mean", "count", "answer_bytes", "cpu_microseconds", "events_measured"}


@pytest.mark.exhaustive("every server of the bench is started and asked")
def test_the_smallest_run_writes_every_number(tmp_path, capsys) -> None:
    """Every cell has a row for each server that was asked in turn, every concurrency one, every start one."""
    plan = Plan((40,), questions=5, binds=8, pause_ms=1.0, quick=True, output=tmp_path)
    assert measure(plan) == 0
    run = json.loads((tmp_path / "bench.json").read_text())
    floor = {"C, does nothing"} if any(map(shutil.which, ("cc", "gcc", "clang"))) else set()
    cells = defaultdict(dict)
    for row in run["filter"]:
        cell = Cell(*(row[key] for key in ("nodes", "names", "fit", "events", "with_tls", "pause_ms")))
        cells[cell][row["server"]] = row
    assert set(cells) == {cell for tls in (False, True) for cell in plan.cells(40, with_tls=tls)}
    assert {cell.fit for cell in cells} == {"all", "half", "none"}
    for cell, rows in cells.items():
        assert set(rows) == {"extender"} | floor | ({"extender, TLS"} if cell.with_tls else set())
        assert all(row.keys() >= FIGURES and row["count"] == 5 and row["answer_bytes"] > 0 for row in rows.values())
        # If all names come back the answers are of one length, which the server that does nothing knows.
        assert cell.fit != "all" or len({row["answer_bytes"] for row in rows.values()}) == 1
        assert all((row["events_measured"] > 0) == (cell.events > 0) for row in rows.values())
    assert {(row["server"], row["concurrency"], row["count"]) for row in run["bind"]} == {
        (server, concurrency, 8) for server in {"extender", "API server alone"} | floor for concurrency in (1, 8, 64)
    }
    assert {(row["nodes"], row["pods"], row["server"]) for row in run["sync"]} == {
        (40, 400, "extender"),
        (40, 400, "extender, TLS"),
    }
    assert len(run["targets"]) == 7
    assert "first sync" in capsys.readouterr().out
