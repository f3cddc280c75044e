"""The bench: its client, its figures, and one run, as small as it can be. No time that it measures is judged."""

from __future__ import annotations

import json
import shutil
import time
from collections import defaultdict
from typing import Any

import pytest

from load.bench.__main__ import Cell, Plan, cells
from load.bench.__main__ import run as measure
from load.bench.bench_figures import EXTENDER, NOTHING, over_nothing, percentile, ratio, summary, targets, text
from load.bench.client import Answer, Asked, ask_round, whole_answer

PAUSE = 0.02


@pytest.mark.exhaustive("every server of the bench is started and asked")
def test_the_smallest_run_writes_every_number(tmp_path, capsys) -> None:
    """Every cell has a row for each server that was asked in turn, and the start and the device plugin have theirs."""
    plan = Plan((100,), questions=5, pause_ms=1.0, quick=True, output=tmp_path, rest_seconds=1.0)
    # The times of the device plugin are judged whatever the cluster is, and a busy machine may miss them.
    assert measure(plan) in (0, 99)
    run = json.loads((tmp_path / "bench.json").read_text())
    floor = {NOTHING} if any(map(shutil.which, ("cc", "gcc", "clang"))) else set()
    found = defaultdict(dict)
    for row in run["filter"]:
        found[Cell(*(row[key] for key in ("nodes", "names", "fit", "events")))][row["server"]] = row
    assert set(found) == set(cells(100))
    for cell, rows in found.items():
        assert set(rows) == {EXTENDER} | floor
        assert all(row["count"] == 5 and row["answer_bytes"] > 0 < row["p50"] for row in rows.values())
        assert all((row["events_measured"] > 0) == (cell.events > 0) for row in rows.values())
    assert [(row["nodes"], row["pods"]) for row in run["sync"]] == [(100, 1070)]
    listed = run["device_list"]
    assert listed["ids"] == 72_816
    assert min(listed["list_mib"], listed["rest_mib"], listed["first_seconds"]) > 0
    assert {name: one["p99_ms"] >= one["p50_ms"] > 0 < one["mib"] for name, one in run["allocations"].items()} == {
        "off": True,
        "driver": True,
    }
    assert "device list of 72816 ids" in capsys.readouterr().out


class Instant:
    """A connection to a server that answers with nothing."""

    def ask(self, request) -> Answer:
        return Answer(200, b"")


def test_the_pause_before_a_question_is_no_part_of_its_time() -> None:
    """All times and all pauses together are no longer than the round."""
    connection: Any = Instant()
    asked = [Asked(name, True, connection, []) for name in ("one", "other")]
    began = time.perf_counter()
    ask_round(asked, [b"{}"] * 3, PAUSE)
    took = time.perf_counter() - began
    times = [one for server in asked for one in server.microseconds]
    assert len(times) == 6
    assert sum(times) / 1e6 + 6 * PAUSE <= took


def test_an_answer_is_whole_with_its_last_byte_and_not_before() -> None:
    """However the bytes come; without a length its end would not be known, so that is refused."""
    for data, answer in (
        (b"HTTP/1.1 200 OK\r\nX: y\r\nContent-Length: 5\r\n\r\nhello", Answer(200, b"hello")),
        (b"HTTP/1.1 503 No\r\ncontent-length:0\r\n\r\n", Answer(503, b"")),
    ):
        assert [whole_answer(data[:end]) for end in range(len(data))] == [None] * len(data)
        assert whole_answer(data) == answer
    with pytest.raises(ConnectionError, match="without Content-Length"):
        whole_answer(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n")


def row(server, p50, p99, *, names=500, events=0.0) -> dict[str, Any]:
    """A row of /filter."""
    return {
        "server": server, "nodes": 5000, "names": names, "fit": "half", "events": events, "p50": p50, "rounds_p50": [p50],
        "p99": p99, "p999": None, "cpu_microseconds": None, "answer_bytes": 10.0,
    }  # fmt: skip


RUN: dict[str, Any] = {
    "filter": [
        row(EXTENDER, 400.0, 600.0),
        row(NOTHING, 100.0, 150.0),
        row(EXTENDER, 500.0, 1300.0, events=500.0),
        row(NOTHING, 100.0, 700.0, events=500.0),
        row(EXTENDER, 1300.0, 1500.0, names=5000),
        row(NOTHING, 100.0, 200.0, names=5000),
    ],
    "machine": {"load_before": 0.1, "cpus": 2},
    "sync": [
        {"nodes": 5000, "pods": 48_372, "server": EXTENDER, "start_seconds": 0.5, "seconds": 9.0}
        | {"rss_mib": 200.0, "peak_mib": 260.0}
    ],
    "device_list": {},
    "allocations": {"driver": {"p50_ms": 1.5, "p99_ms": 17.0, "cpu_ms": 4.23, "mib": 57.6}},
    "left_out": ["the sea"],
}
LISTED = {"first_seconds": 0.25, "list_mib": 120.0, "rest_mib": 61.0}


def test_percentiles_are_times_that_were_measured() -> None:
    """The nearest rank, not something between two; one of a thousand needs a thousand values."""
    found = [percentile(list(range(100, 0, -1)), share) for share in (0.5, 0.99, 0.999, 1.0, 0.0)]
    assert found == [50, 99, 100, 100, 1]
    assert summary([1.0] * 999)["p999"] is None
    assert summary([1.0] * 999 + [5.0, 5.0])["p999"] == 5.0


def test_a_ratio_is_over_the_floor_of_its_own_cell() -> None:
    """The median of the rounds' ratios, which a burst of other work does not move; without both figures there is none."""
    for at, cut, found in ((0, "p50", 4.0), (2, "p99", 1300 / 700)):
        assert over_nothing(RUN["filter"], RUN["filter"][at], cut) == pytest.approx(found)
    ours = {**row(EXTENDER, 1.0, 1.0), "rounds_p50": [400.0, 4000.0, 440.0, 390.0, 400.0]}
    floor = {**row(NOTHING, 1.0, 1.0), "rounds_p50": [100.0, 100.0, 110.0, 300.0, 100.0]}
    assert over_nothing([ours, floor], ours, "p50") == 4.0
    both = [(6.0, 2.0), (None, 2.0), (6.0, 0.0)]
    assert [ratio({"p50": one}, {"p50": other}, "p50") for one, other in both] == [3.0, None, None]


def test_targets_are_judged_by_the_cells_that_they_name() -> None:
    """Each promise of the project has its number, and is met or missed; one that was not measured is neither."""
    assert [(target.value, target.is_kept) for target in targets(RUN | {"device_list": LISTED})] == [
        (4.0, True), (4.0, False), (13.0, False), (pytest.approx(1300 / 600), False), (9.0, True), (200.0, True), (260.0, False),
        (0.25, True), (120.0, True), (61.0, False),
    ]  # fmt: skip
    assert {target.is_kept for target in targets({"filter": [], "sync": [], "device_list": {}})} == {None}
    assert "not measured" in (found := text({**RUN, "filter": []}))
    assert "driver  1.50  17.00  4.23   57.60" in found
