"""The run as text: ratios first, then whether the targets are met, then absolute numbers. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from load.bench.bench_figures import NOTHING, Row, find, over_nothing, ratio, targets

# A load above this for each processor: others are at work.
_BUSY: Final = 0.5


def text(run: Mapping[str, Any]) -> str:
    """All of it."""
    return "\n".join(
        [*_busy(run), *_ratios(run), *_targets(run), *_filters(run), *_binds(run), *_syncs(run), *_left_out(run)]
    )


def _busy(run: Mapping[str, Any]) -> Iterator[str]:
    machine = run["machine"]
    if machine["load_before"] > _BUSY * machine["cpus"]:
        yield f"the machine was busy before this began (load {machine['load_before']:.1f}): run it again"
        yield ""


def _ratios(run: Mapping[str, Any]) -> Iterator[str]:
    rows = run["filter"]
    if not any(row["server"] == NOTHING for row in rows):
        return
    yield "/filter over a C server that does nothing, asked in turn (ratios)"
    yield f"{_cell_head()}{'server':<24}{'p50':>8}{'p99':>8}{'p99.9':>8}"
    for row in rows:
        if row["server"] != NOTHING:
            cuts = "".join(_number(over_nothing(rows, row, key), 8, 2) for key in ("p50", "p99", "p999"))
            yield f"{_cell(row)}{row['server']:<24}{cuts}"
    yield ""
    if run["bind"]:
        yield from _bind_ratios(run)


def _bind_ratios(run: Mapping[str, Any]) -> Iterator[str]:
    yield "binds over the same server (ratio of binds a second)"
    yield f"{'at once':>8}  {'server':<24}{'ratio':>8}"
    for row in run["bind"]:
        if row["server"] != NOTHING:
            floor = find(run["bind"], concurrency=row["concurrency"], server=NOTHING)
            yield f"{row['concurrency']:>8}  {row['server']:<24}{_number(ratio(row, floor, 'per_second'), 8, 3)}"
    yield ""


def _targets(run: Mapping[str, Any]) -> Iterator[str]:
    yield "targets"
    for target in targets(run):
        said = {True: "met", False: "MISSED", None: "not measured"}[target.met]
        value = "" if target.value is None else f"{target.value:.2f} {target.unit}, "
        yield f"  {target.what:<56}{value}at most {target.most:g}: {said}"
    yield ""


def _filters(run: Mapping[str, Any]) -> Iterator[str]:
    yield "/filter, microseconds at concurrency 1; cpu is the server's own, of all threads"
    yield f"{_cell_head()}{'server':<24}{'p50':>8}{'p99':>8}{'p99.9':>8}{'cpu':>8}{'bytes':>9}"
    for row in run["filter"]:
        cuts = "".join(_number(row[key], 8) for key in ("p50", "p99", "p999", "cpu_microseconds"))
        yield f"{_cell(row)}{row['server']:<24}{cuts}{row['answer_bytes']:>9.0f}"
    yield ""


def _binds(run: Mapping[str, Any]) -> Iterator[str]:
    if not run["bind"]:
        return
    yield "binds; latency in microseconds"
    yield f"{'at once':>8}  {'server':<24}{'binds/s':>9}{'p50':>9}{'p99':>9}"
    for row in run["bind"]:
        cuts = "".join(_number(row[key], 9) for key in ("per_second", "p50", "p99"))
        yield f"{row['concurrency']:>8}  {row['server']:<24}{cuts}"
    yield ""


def _syncs(run: Mapping[str, Any]) -> Iterator[str]:
    yield "first sync: from the start of the process until it is ready; memory in MiB"
    yield f"{'nodes':>8}{'pods':>9}  {'server':<24}{'start s':>9}{'ready s':>9}{'after':>8}{'most':>8}"
    for row in run["sync"]:
        numbers = f"{row['start_seconds']:>9.2f}{row['seconds']:>9.2f}{row['rss_mib']:>8.0f}{row['peak_mib']:>8.0f}"
        yield f"{row['nodes']:>8}{row['pods']:>9}  {row['server']:<24}{numbers}"


def _left_out(run: Mapping[str, Any]) -> Iterator[str]:
    left_out: Sequence[str] = run["left_out"]
    if left_out:
        yield ""
        yield "left out"
        yield from (f"  {reason}" for reason in left_out)


def _cell_head() -> str:
    return f"{'nodes':>6}{'names':>7} {'fit':<5}{'events/s':>9}{'pause ms':>9}  "


def _cell(row: Row) -> str:
    return f"{row['nodes']:>6}{row['names']:>7} {row['fit']:<5}{row['events']:>9.0f}{row['pause_ms']:>9g}  "


def _number(value: float | None, width: int, digits: int = 0) -> str:
    return f"{'-':>{width}}" if value is None else f"{value:>{width}.{digits}f}"
