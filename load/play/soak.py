"""The shape ``soak``: pods come and go for long; memory, drift of the book and failures are what is judged."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any, Final

from gpushare.extender.core.book import ENDED_REMEMBERED
from load.load_reports import Promise

# Between two audits of the book. Oftener than every ten seconds the extender refuses.
AUDIT_SECONDS: Final = 30
# Memory is flat if it grows by no more than this an hour, in parts of its size: a leak of a pod's size for each pod that comes
# would be many times that.
MOST_GROWTH: Final = 0.05
# Over less than this, in seconds, memory has no slope: what is filled once would be a leak.
_SHORTEST: Final = 600.0
# Until the extender has met all sizes of pods this part of the run counts for no slope, or more: see ``warm_up``.
_WARM_UP: Final = 0.25


def promises(run: Mapping[str, Any]) -> list[Promise]:
    """Each promise with the figure that was found; that no card is over-booked is judged of every run."""
    samples = run["outcome"]["samples"]
    since = warm_up(run)
    slope = growth(samples, since)
    failed = [one["failed_audits"] for one in samples if "failed_audits" in one]
    audits = [one for one in samples if one.get("audits")]
    drift = max((one["drift_units"] for one in audits), default=None)
    found = f"units that one of {max((one['audits'] for one in audits), default=0):.0f} audits found booked otherwise"
    memory = f"memory from {since:.0f} s on, when tables are full, grows an hour by this part of it"
    return [
        Promise(memory, MOST_GROWTH, None if slope is None else round(slope, 4)),
        Promise(f"{found} than the API says", 0, drift),
        Promise("audits that failed", 0, max(failed, default=None)),
        Promise("questions that failed", 0, sum(row["failures"] for row in run["rows"])),
    ]


def warm_up(run: Mapping[str, Any]) -> float:
    """How long tables get fuller though nothing leaks, in seconds.

    As many pods must have come as ran at first, which they replace, and as the extender remembers after their end.
    """
    order, pods = run["order"], run["outcome"]["counts"]["running"] + ENDED_REMEMBERED
    return float(max(order["seconds"] * _WARM_UP, pods / order["rate"]))


def growth(samples: Sequence[Mapping[str, float]], since: float) -> float | None:
    """The growth of memory in an hour, in parts of its mean, by least squares from this many seconds on.

    None if less than ten minutes are left.
    """
    begun = samples[0]["at"] if samples else 0.0
    points = [(one["at"] / 3600, one["rss_mib"]) for one in samples if one["at"] - begun >= since]
    if len(points) < 2 or (points[-1][0] - points[0][0]) * 3600 < _SHORTEST:
        return None
    hours, memory = zip(*points, strict=True)
    slope: float = statistics.linear_regression(hours, memory).slope
    mean: float = statistics.mean(memory)
    return slope / mean
