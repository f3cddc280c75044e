"""The bench from flags to file, as small as it can be. No time that it measures is judged."""

from __future__ import annotations

import json
import shutil
import socket
from typing import Any

from load.bench.__main__ import main

FLAGS = ["--questions", "5", "--binds", "8", "--sync-nodes", "10", "--sync-pods", "100", "--pods-per-node", "10"]
FIGURES = {"p50", "p99", "p999", "mean", "count", "answer_bytes", "cpu_microseconds", "events_measured"}


def test_the_smallest_run_writes_every_number(tmp_path, capsys) -> None:
    """Every cell has a row for each server that was asked in turn, every concurrency one, every start one."""
    assert main(["--nodes", "40", "--names", "20", "--output", str(tmp_path), *FLAGS]) == 0
    run = json.loads((tmp_path / "bench.json").read_text())
    floor = {"C, does nothing"} if any(map(shutil.which, ("cc", "gcc", "clang"))) else set()
    cells: dict[tuple[Any, ...], dict[str, dict[str, float]]] = {}
    for row in run["filter"]:
        cell = tuple(row[key] for key in ("nodes", "names", "fit", "events", "with_tls", "pause_ms"))
        cells.setdefault(cell, {})[row["server"]] = row
    assert set(cells) == {
        (40, names, fit, events, tls, pause)
        for names in (20, 40)
        for fit in ("all", "half", "none")
        for events in (0, 500)
        for tls in (False, True)
        for pause in (1, 0)
        if pause or (fit == "half" and not events and not tls)
    }
    for cell, rows in cells.items():
        assert set(rows) == {"extender"} | floor | ({"extender, TLS"} if cell[4] else set())
        assert all(row.keys() >= FIGURES and row["count"] == 5 and row["answer_bytes"] > 0 for row in rows.values())
        # If all names come back the answers are of one length, which the server that does nothing knows.
        assert cell[2] != "all" or len({row["answer_bytes"] for row in rows.values()}) == 1
        assert all((row["events_measured"] > 0) == (cell[3] > 0) for row in rows.values())
    assert {(row["server"], row["concurrency"], row["count"]) for row in run["bind"]} == {
        (server, concurrency, 8) for server in {"extender", "API server alone"} | floor for concurrency in (1, 8, 64)
    }
    assert {(row["nodes"], row["pods"], row["server"]) for row in run["sync"]} == {
        (10, 100, "extender"),
        (40, 400, "extender"),
        (40, 400, "extender, TLS"),
    }
    assert len(run["targets"]) == 7
    assert "first sync" in capsys.readouterr().out


def test_a_run_that_cannot_be_says_why(tmp_path, capsys) -> None:
    """If the port of the API server is another program's the exit code is 1."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = str(taken.getsockname()[1])
        assert main(["--nodes", "10", "--output", str(tmp_path), "--api-port", port, *FLAGS, "--binds", "0"]) == 1
    assert "simulated API server ended" in capsys.readouterr().err
