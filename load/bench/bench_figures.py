"""From times to figures: percentiles, ratios, and whether the targets of the project are met. Pure.

A run is one mapping, which is also the JSON file: ``filter`` and ``bind`` have a row for each server, ``sync`` one for each start.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from load.load_reports import Promise

Row = Mapping[str, Any]

EXTENDER, EXTENDER_TLS = "extender", "extender, TLS"
NOTHING: Final = "C, does nothing"
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
    over = "x do-nothing C"
    return [
        Promise("500 names of 5,000 nodes, half fit, quiet: p50", 5, over_nothing(rows, few, "p50"), over),
        Promise("500 names of 5,000 nodes, half fit, quiet: p99", 3, over_nothing(rows, few, "p99"), over),
        Promise("5,000 names, half fit, quiet: p50", 12, over_nothing(rows, all_names, "p50"), over),
        Promise("500 names of 5,000 nodes, half fit, with events: p99", 2, ratio(busy, few, "p99"), "x quiet"),
        Promise("first sync of 50,000 pods on 5,000 nodes", 10, sync.get("seconds"), "s"),
        Promise("memory after it", 250, sync.get("rss_mib"), "MiB"),
        Promise("most memory during it", 250, sync.get("peak_mib"), "MiB"),
    ]


def _is_same_but_events(busy: Row, quiet: Row) -> bool:
    return busy["server"] == quiet["server"] and cell_of(busy) | {"events": quiet["events"]} == cell_of(quiet)
