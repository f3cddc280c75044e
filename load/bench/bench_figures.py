"""From times to figures: percentiles, ratios, whether the targets of the project are met; and all of it as text. Pure.

A run is one mapping, which is also the JSON file: ``filter`` has a row for each server, ``sync`` one for each start, and
``device_list`` and ``allocations`` are the figures of the device plugin.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from load.load_reports import Promise, number, table, warning, with_ratio

Row = Mapping[str, Any]

EXTENDER: Final = "extender"
NOTHING: Final = "C, does nothing"
_CELL: Final = ("nodes", "names", "fit", "events")
# Each figure of a row that is a time, with its share of all requests.
CUTS: Final[Mapping[str, float]] = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p999": 0.999}
# With fewer times than this the 999th of a thousand is an accident.
_FEWEST_FOR_P999: Final = 1000
# Questions of one round, which the servers are asked in turn.
ROUND: Final = 50


def percentile(times: Sequence[float], share: float) -> float:
    """The smallest time that this share of all do not exceed; raises ValueError if there are none."""
    if not times:
        raise ValueError("no times")
    return sorted(times)[max(math.ceil(share * len(times)) - 1, 0)]


def cuts(times: Sequence[float]) -> dict[str, float | None]:
    """The percentiles of ``CUTS``; p99.9 only if there are enough times."""
    few = len(times) < _FEWEST_FOR_P999
    return {cut: None if not times or (few and cut == "p999") else percentile(times, CUTS[cut]) for cut in CUTS}


def summary(times: Sequence[float]) -> dict[str, float | int | None]:
    """Figures of microseconds."""
    return {"count": len(times), "mean": round(sum(times) / len(times), 1), **cuts(times)}


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
    return {key: row[key] for key in _CELL}


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
    rows = run["filter"]
    few, all_names, busy = (
        find(rows, nodes=5000, names=names, fit="half", events=events, server=EXTENDER)
        for names, events in ((500, 0.0), (5000, 0.0), (500, 500.0))
    )
    sync = find(run["sync"], nodes=5000) or {}
    plugin = run["device_list"]
    over = "x do-nothing C"
    return [
        Promise("500 names of 5,000 nodes, half fit, quiet: p50", 5, over_nothing(rows, few, "p50"), over),
        Promise("500 names of 5,000 nodes, half fit, quiet: p99", 3, over_nothing(rows, few, "p99"), over),
        Promise("5,000 names, half fit, quiet: p50", 12, over_nothing(rows, all_names, "p50"), over),
        Promise("500 names of 5,000 nodes, half fit, with events: p99", 2, ratio(busy, few, "p99"), "x quiet"),
        Promise("first sync of 5,000 nodes and their 48,372 pods", 10, sync.get("seconds"), "s"),
        Promise("memory after it", 250, sync.get("rss_mib"), "MiB"),
        Promise("most memory during it", 250, sync.get("peak_mib"), "MiB"),
        Promise("first list of a device plugin with 72,816 ids", 0.5, plugin.get("first_seconds"), "s"),
        Promise("most memory of the plugin with that list", 150, plugin.get("list_mib"), "MiB"),
        Promise("memory of a device plugin at rest", 60, plugin.get("rest_mib"), "MiB"),
    ]


def text(run: Mapping[str, Any]) -> str:
    """All of it."""
    parts = (
        warning(run["machine"]),
        _targets(run),
        _filters(run),
        _syncs(run),
        _device_list(run),
        _allocations(run),
        _left_out(run),
    )
    return "\n\n".join("\n".join(lines) for part in parts if (lines := list(part)))


def _targets(run: Mapping[str, Any]) -> Iterator[str]:
    yield "targets"
    yield from (f"  {target.text('unknown')}" for target in targets(run))


def _filters(run: Mapping[str, Any]) -> Iterator[str]:
    yield (
        "/filter, one question after the other, microseconds; in brackets over a C server that does nothing, asked in turn; "
        "cpu is the server's own, of all threads"
    )
    rows = run["filter"]
    lines = [
        (
            row["server"],
            *(one if isinstance(one, str) else f"{one:g}" for one in cell_of(row).values()),
            *(with_ratio(row[cut], over_nothing(rows, row, cut)) for cut in ("p50", "p99", "p999")),
            number(row["cpu_microseconds"]),
            number(row["answer_bytes"]),
        )
        for row in rows
    ]
    yield from table(("server", *_CELL, "p50", "p99", "p99.9", "cpu", "bytes"), lines)


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


def _allocations(run: Mapping[str, Any]) -> Iterator[str]:
    if found := run["allocations"]:
        yield "Allocate by --memory-limit, asked in turn: milliseconds (cpu: of the plugin, from pod to pod), and its memory in MiB"
        rows = [
            (name, *(number(one[key], 2) for key in ("p50_ms", "p99_ms", "cpu_ms", "mib")))
            for name, one in found.items()
        ]
        yield from table(("limits", "p50", "p99", "cpu", "memory"), rows)


def _left_out(run: Mapping[str, Any]) -> Iterator[str]:
    if run["left_out"]:
        yield "left out"
        yield from (f"  {reason}" for reason in run["left_out"])
