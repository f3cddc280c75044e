"""The shape ``soak``: pods come and go for long; memory, drift of the book and over-booked cards are what is judged."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from gpushare.extender.core.book import ENDED_REMEMBERED
from load.load_reports import Promise, write

# Between two audits of the book. Oftener than every ten seconds the extender refuses.
AUDIT_SECONDS: Final = 30
# Memory is flat if it grows by no more than this an hour, in parts of its size: a leak of a pod's size for each pod that comes
# would be many times that.
MOST_GROWTH: Final = 0.05
# Over less than this, in seconds, memory has no slope: what is filled once would be a leak.
_SHORTEST: Final = 600.0
# Until the extender has met all sizes of pods this part of the run counts for no slope, or more: see ``warm_up``.
_WARM_UP: Final = 0.25
# Promises that only a run with the real scheduler counts.
_SEEN_ON_A_REAL_ONE: Final = {
    "without_a_card": "pods that were bound without a card",
    "waiting": "pods that still waited at the end",
}


def finish(run: dict[str, Any], folder: Path) -> int:
    """Print and keep what was found; the exit code: 1 if something was not measured, as memory in a run of minutes."""
    found = promises(run)
    broken = run.get("broken_promises", [])
    run["verdicts"] = [{"text": one.text(), "kept": bool(one.is_kept)} for one in found]
    run["verdicts"] += [{"text": text, "kept": False} for text in broken]
    path = folder / "load.json"
    write(path, run)
    print("\n".join([text(run), *(one["text"] for one in run["verdicts"]), "", f"wrote {path}"]))
    if broken or any(one.is_kept is False for one in found):
        return 99
    return 0 if all(one.is_kept for one in found) else 1


def promises(run: Mapping[str, Any]) -> list[Promise]:
    """A promise, with the figure that was found."""
    counts, samples = run["outcome"]["counts"], run["outcome"]["samples"]
    slope = growth(samples, warm_up(run))
    failed = [one["failed_audits"] for one in samples if "failed_audits" in one]
    drifts = [one["drift_units"] for one in samples if one.get("audits")]
    found = [
        Promise("memory grows, parts of it an hour", MOST_GROWTH, None if slope is None else round(slope, 4)),
        Promise("units that an audit found booked otherwise than the API says", 0, max(drifts, default=None)),
        Promise("audits that failed", 0, max(failed, default=None)),
        Promise("cards that the API showed over-booked", 0, counts["over_booked"]),
        Promise("questions that failed", 0, sum(row["failures"] for row in run["rows"])),
    ]
    return found + [Promise(what, 0, counts[name]) for name, what in _SEEN_ON_A_REAL_ONE.items() if name in counts]


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


def text(run: Mapping[str, Any]) -> str:
    """The events, in a few lines."""
    outcome, samples = run["outcome"], run["outcome"]["samples"]
    counts, memory, order = outcome["counts"], [one["rss_mib"] for one in samples], run["order"]
    audits = max((one.get("audits", 0.0) for one in samples), default=0.0)
    lines = [
        f"{run['cluster']['nodes']} nodes of {run['cluster']['file']}, {order['rate']} pods/s for {order['seconds']} s: "
        f"{counts['created']} pods came, {counts['binds']} were bound, {counts['ended']} ended; {audits:.0f} audits",
    ]
    if memory:
        most = max(memory)
        lines.append(
            f"the extender had {memory[0]:.1f} MiB at first, {memory[-1]:.1f} at the end, {most:.1f} at most; judged"
        )
        lines[-1] += f" from {warm_up(run):.0f} s on: by then it has forgotten as many pods as it has come to know"
    lines += [
        f"{row['verb']}: {row['count']}, p50 {row['p50']:.2f} ms, p99 {row['p99']:.2f} ms"
        for row in run["rows"]
        if row["extender"] == "gpushare" and row["p50"] is not None
    ]
    return "\n".join(lines)
