"""The run as text: ratios first, then whether the targets are met, then absolute numbers. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from load.bench.bench_figures import NOTHING, Row, find, over_nothing, ratio, targets
from load.load_reports import number, table, warning

_CELL: Final = ("server", "nodes", "names", "fit", "events/s", "pause ms")


def text(run: Mapping[str, Any]) -> str:
    """All of it."""
    parts = (
        warning(run["machine"]),
        _ratios(run),
        _targets(run),
        _filters(run),
        _binds(run),
        _syncs(run),
        _left_out(run),
    )
    return "\n\n".join("\n".join(lines) for part in parts if (lines := list(part)))


def _ratios(run: Mapping[str, Any]) -> Iterator[str]:
    rows, binds = run["filter"], run["bind"]
    if not any(row["server"] == NOTHING for row in rows):
        return
    yield "/filter over a C server that does nothing, asked in turn (ratios)"
    yield from table(
        (*_CELL, "p50", "p99", "p99.9"),
        [
            (*_cell(row), *(number(over_nothing(rows, row, key), 2) for key in ("p50", "p99", "p999")))
            for row in rows
            if row["server"] != NOTHING
        ],
    )
    if binds:
        yield ""
        yield "binds over the same server (ratio of binds a second)"
        floors = {row["concurrency"]: find(binds, concurrency=row["concurrency"], server=NOTHING) for row in binds}
        yield from table(
            ("server", "at once", "ratio"),
            [
                (row["server"], row["concurrency"], number(ratio(row, floors[row["concurrency"]], "per_second"), 3))
                for row in binds
                if row["server"] != NOTHING
            ],
        )


def _targets(run: Mapping[str, Any]) -> Iterator[str]:
    yield "targets"
    yield from (f"  {target.text()}" for target in targets(run))


def _filters(run: Mapping[str, Any]) -> Iterator[str]:
    yield "/filter, microseconds at concurrency 1; cpu is the server's own, of all threads"
    cuts = ("p50", "p99", "p999", "cpu_microseconds", "answer_bytes")
    rows = [(*_cell(row), *(number(row[key]) for key in cuts)) for row in run["filter"]]
    yield from table((*_CELL, "p50", "p99", "p99.9", "cpu", "bytes"), rows)


def _binds(run: Mapping[str, Any]) -> Iterator[str]:
    if run["bind"]:
        yield "binds; latency in microseconds"
        cuts = ("concurrency", "per_second", "p50", "p99")
        rows = [(row["server"], *(number(row[key]) for key in cuts)) for row in run["bind"]]
        yield from table(("server", "at once", "binds/s", "p50", "p99"), rows)


def _syncs(run: Mapping[str, Any]) -> Iterator[str]:
    yield "first sync: from the start of the process until it is ready; memory in MiB"
    digits = {"nodes": 0, "pods": 0, "start_seconds": 2, "seconds": 2, "rss_mib": 0, "peak_mib": 0}
    rows = [(row["server"], *(number(row[key], places) for key, places in digits.items())) for row in run["sync"]]
    yield from table(("server", "nodes", "pods", "start s", "ready s", "after", "most"), rows)


def _left_out(run: Mapping[str, Any]) -> Iterator[str]:
    if run["left_out"]:
        yield "left out"
        yield from (f"  {reason}" for reason in run["left_out"])


def _cell(row: Row) -> tuple[str, ...]:
    numbers = (row["server"], row["nodes"], row["names"], row["fit"], row["events"], row["pause_ms"])
    return tuple(one if isinstance(one, str) else f"{one:g}" for one in numbers)
