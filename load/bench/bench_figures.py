"""From times to figures: percentiles, ratios, whether the targets of the project are met; and all of it as text. Pure.

A run is one mapping, which is also the JSON file: ``filter`` and ``bind`` have a row for each server, ``sync`` one for each start,
and ``device_list`` are the figures of the device plugin.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from load.load_reports import Promise, number, table, warning

Row = Mapping[str, Any]

EXTENDER, EXTENDER_TLS = "extender", "extender, TLS"
NOTHING: Final = "C, does nothing"
_CELL: Final = ("server", "nodes", "names", "fit", "events/s", "pause ms")
# With fewer times than this the 999th of a thousand is an accident.
_FEWEST_FOR_P999: Final = 1000
# Questions of one round, which the servers are asked in turn.
ROUND: Final = 50


def percentile(times: Sequence[float], share: float) -> float:
    """The smallest time that this share of all do not exceed; raises ValueError if there are none."""
    if not times:
        raise ValueError("no times")
    return sorted(times)[max(math.ceil(share * len(times)) - 1, 0)]


def summary(times: Sequence[float]) -> dict[str, float | int | None]:
    """Percentiles of microseconds; p99.9 only if there are enough times."""
    return {
        "count": len(times),
        "mean": round(sum(times) / len(times), 1),
        "p50": percentile(times, 0.5),
        "p99": percentile(times, 0.99),
        "p999": percentile(times, 0.999) if len(times) >= _FEWEST_FOR_P999 else None,
    }


def round_medians(times: Sequence[float]) -> list[float]:
    """The median of each round, in the order in which they were asked: what drifts, drifts for all servers of a round."""
    return [percentile(times[at : at + ROUND], 0.5) for at in range(0, len(times), ROUND)]


def find(rows: Iterable[Row], **wanted: Any) -> Row | None:
    """The first row that has all these values."""
    return next((row for row in rows if all(row.get(key) == value for key, value in wanted.items())), None)


def ratio(row: Row | None, floor: Row | None, key: str) -> float | None:
    """One figure over the same of another row, None if either is missing."""
    if row is None or floor is None or row.get(key) is None or not floor.get(key):
        return None
    return float(row[key]) / float(floor[key])


def cell_of(row: Row) -> dict[str, Any]:
    """Which cell a filter's row belongs to: in the same one, servers were asked in turn."""
    return {key: row[key] for key in ("nodes", "names", "fit", "events", "with_tls", "pause_ms")}


def as_scheduler_asks(rows: Iterable[Row]) -> list[Row]:
    """Those with work between the questions; what was asked without beside them is there to be compared with."""
    rows = list(rows)
    pause = max((row["pause_ms"] for row in rows), default=0)
    return [row for row in rows if row["pause_ms"] == pause]


def over_nothing(rows: Sequence[Row], row: Row | None, key: str) -> float | None:
    """A filter figure over that of the server that does nothing, asked in turn with it.

    Of ``p50`` it is the median of the ratios of all rounds: a burst of other work on the machine spoils some rounds, not the ratio.
    """
    floor = None if row is None else find(rows, **cell_of(row), server=NOTHING)
    if row is None or floor is None or key != "p50":
        return ratio(row, floor, key)
    rounds = zip(row["rounds_p50"], floor["rounds_p50"], strict=True)
    return float(statistics.median(ours / its for ours, its in rounds))


def targets(run: Mapping[str, Any]) -> list[Promise]:
    """Each promise of the project with what this run found."""
    rows = as_scheduler_asks(run["filter"])
    quiet = {"nodes": 5000, "fit": "half", "events": 0, "with_tls": False, "server": EXTENDER}
    few, all_names = find(rows, names=500, **quiet), find(rows, names=5000, **quiet)
    busy = next((row for row in rows if row["events"] and few and _is_same_but_events(row, few)), None)
    sync = find(run["sync"], nodes=5000, pods=50_000, server=EXTENDER) or {}
    plugin = run["device_list"]
    over = "x do-nothing C"
    return [
        Promise("500 names of 5,000 nodes, half fit, quiet: p50", 5, over_nothing(rows, few, "p50"), over),
        Promise("500 names of 5,000 nodes, half fit, quiet: p99", 3, over_nothing(rows, few, "p99"), over),
        Promise("5,000 names, half fit, quiet: p50", 12, over_nothing(rows, all_names, "p50"), over),
        Promise("500 names of 5,000 nodes, half fit, with events: p99", 2, ratio(busy, few, "p99"), "x quiet"),
        Promise("first sync of 50,000 pods on 5,000 nodes", 10, sync.get("seconds"), "s"),
        Promise("memory after it", 250, sync.get("rss_mib"), "MiB"),
        Promise("most memory during it", 250, sync.get("peak_mib"), "MiB"),
        Promise("first list of a device plugin with 72,816 ids", 0.5, plugin.get("first_seconds"), "s"),
        Promise("most memory of the plugin with that list", 150, plugin.get("list_mib"), "MiB"),
        Promise("memory of a device plugin at rest", 60, plugin.get("rest_mib"), "MiB"),
    ]


def _is_same_but_events(busy: Row, quiet: Row) -> bool:
    return busy["server"] == quiet["server"] and cell_of(busy) | {"events": quiet["events"]} == cell_of(quiet)


def text(run: Mapping[str, Any]) -> str:
    """All of it."""
    parts = (
        warning(run["machine"]),
        _ratios(run),
        _targets(run),
        _filters(run),
        _binds(run),
        _syncs(run),
        _device_list(run),
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
    yield from (f"  {target.text('unknown')}" for target in targets(run))


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


def _device_list(run: Mapping[str, Any]) -> Iterator[str]:
    if found := run["device_list"]:
        yield f"device list of {found['ids']} ids, {found['bytes']} bytes"
        yield f"built, sent and received in {found['first_seconds']:.3f} s, the next time in {found['again_seconds']:.3f} s"
        yield (
            f"an unhealthy card: from the Xid to the new list {found['unhealthy_seconds']:.3f} s, "
            f"{found['unhealthy_bytes_share']:.3f} of one list's bytes"
        )
        yield f"at rest the plugin takes {found['rest_share']:.2%} of a processor"


def _left_out(run: Mapping[str, Any]) -> Iterator[str]:
    if run["left_out"]:
        yield "left out"
        yield from (f"  {reason}" for reason in run["left_out"])


def _cell(row: Row) -> tuple[str, ...]:
    numbers = (row["server"], row["nodes"], row["names"], row["fit"], row["events"], row["pause_ms"])
    return tuple(one if isinstance(one, str) else f"{one:g}" for one in numbers)
