"""The bench from flags to file, as small as it can be, and its client. No time that it measures is judged."""

from __future__ import annotations

import json
import random
import shutil
import time
from collections import defaultdict
from typing import Any

import pytest

from load.bench.__main__ import PODS_A_NODE, Cell, Plan, read
from load.bench.__main__ import run as measure
from load.bench.bench_questions import Answer, filter_bodies, whole_answer, wrong_with
from load.bench.client import Asked, ask_round

FIGURES = {"p50", "p99", "p999", "mean", "count", "answer_bytes", "cpu_microseconds", "events_measured"}
NAMES = [f"node-{number:05}" for number in range(20)]
PAUSE = 0.02


@pytest.mark.exhaustive("every server of the bench is started and asked")
def test_the_smallest_run_writes_every_number(tmp_path, capsys) -> None:
    """Every cell has a row for each server that was asked in turn, every concurrency one, every start one."""
    plan = Plan((40,), questions=5, binds=8, pause_ms=1.0, quick=True, output=tmp_path, rest_seconds=1.0)
    # The times of the device plugin are judged whatever the world is, and a busy machine may miss them.
    assert measure(plan) in (0, 99)
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
    listed = run["device_list"]
    assert listed["ids"] == 72_816
    assert min(listed["list_mib"], listed["rest_mib"], listed["first_seconds"]) > 0
    assert len(run["targets"]) == 10
    said = capsys.readouterr().out
    assert "first sync" in said
    assert "device list of 72816 ids" in said


def test_a_full_run_measures_everything_in_every_world() -> None:
    """All, half and none fit; short and long questions, which of few nodes are the same; quiet and with events; plain and TLS."""
    plan = read([])
    assert plan.nodes == (1000, 5000, 15_000)
    for nodes, questions in ((15_000, (500, 15_000)), (300, (300,))):
        for tls in (False, True):
            assert {(cell.names, cell.fit, cell.events) for cell in plan.cells(nodes, with_tls=tls)} == {
                (names, fit, events) for names in questions for fit in ("all", "half", "none") for events in (0, 500)
            }


def test_a_quick_run_has_what_the_targets_need() -> None:
    """A quick run asks what the targets judge, in a world with the 50,000 pods of the first sync; long questions less often."""
    plan = read(["--quick"])
    assert 5000 in plan.nodes
    assert 5000 * PODS_A_NODE == 50_000
    asked = {(cell.names, cell.fit, cell.events) for cell in plan.cells(5000, with_tls=False)}
    assert {(500, "half", 0), (5000, "half", 0), (500, "half", 500)} <= asked
    assert plan.cells(1000, with_tls=True) == []
    over_tls = plan.cells(5000, with_tls=True)
    assert [(cell.fit, plan.questions_of(cell)) for cell in over_tls] == [("half", 1000)] * 2 + [("half", 250)] * 2


@pytest.mark.parametrize(
    ("flags", "pauses"),
    [(["--quick"], [1.0, 0.0]), (["--pause-ms", "2.5"], [2.5, 0.0]), (["--pause-ms", "0"], [0.0])],
)
def test_what_the_targets_judge_is_asked_without_a_pause_too(flags, pauses) -> None:
    """A reader of a ratio sees what the pause does to it; with no pause there is nothing to compare."""
    plan = read(flags)
    cells = plan.cells(5000, with_tls=False)
    judged = [cell for cell in cells if cell.fit == "half" and not cell.events]
    for names in (500, 5000):
        assert [cell.pause_ms for cell in judged if cell.names == names] == pauses
    rest = [*(cell for cell in cells if cell not in judged), *plan.cells(5000, with_tls=True)]
    assert {cell.pause_ms for cell in rest} == {plan.pause_ms}


@pytest.mark.parametrize("pause", ["-1", "nan"])
def test_flags_that_make_no_sense_end_with_2_and_the_reason(pause, capsys) -> None:
    """Before anything is started."""
    with pytest.raises(SystemExit) as ended:
        read(["--pause-ms", pause])
    assert ended.value.code == 2
    assert "not a number of milliseconds" in capsys.readouterr().err


def test_each_question_has_different_names_in_its_own_order() -> None:
    """No answer can be remembered by the bytes of the question."""
    bodies = [json.loads(body) for body in filter_bodies(NAMES, 12, "half", 0, random.Random(1))]
    assert all(len(set(body["NodeNames"])) == 12 for body in bodies)
    assert len({tuple(body["NodeNames"]) for body in bodies}) == len(bodies) == 50
    limits = [body["Pod"]["spec"]["containers"][0]["resources"]["limits"] for body in bodies]
    assert {one["aliyun.com/gpu-mem"] for one in limits} == {"4"}


@pytest.mark.parametrize(
    ("fitting", "failed", "error", "wrong"),
    [
        (10, 10, "", ""),
        (20, 0, "", "fit where half should"),
        (0, 20, "", "fit where half should"),
        (10, 0, "", "10 and 0 nodes of 20"),
        (0, 0, "not ready", "not ready"),
    ],
)
def test_an_answer_is_measured_only_where_it_makes_sense(fitting, failed, error, wrong) -> None:
    """An answer about half of the nodes has about half of them, and each node once."""
    failed_nodes = dict.fromkeys(NAMES[20 - failed :], "full")
    body = json.dumps({"NodeNames": NAMES[:fitting], "FailedNodes": failed_nodes, "Error": error}).encode()
    found = wrong_with(body, 20, "half")
    assert wrong in found
    assert bool(wrong) == bool(found)


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


@pytest.mark.parametrize(
    ("data", "answer"),
    [
        (b"HTTP/1.1 200 OK\r\nX: y\r\nContent-Length: 5\r\n\r\nhello", Answer(200, b"hello")),
        (b"HTTP/1.1 503 No\r\ncontent-length:0\r\n\r\n", Answer(503, b"")),
    ],
)
def test_an_answer_is_whole_with_its_last_byte_and_not_before(data, answer) -> None:
    """However the bytes come; without a length its end would not be known, so that is refused."""
    assert [whole_answer(data[:end]) for end in range(len(data))] == [None] * len(data)
    assert whole_answer(data) == answer
    with pytest.raises(ConnectionError, match="without Content-Length"):
        whole_answer(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n")
