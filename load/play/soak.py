"""``python -m load soak``: pods come and go for long; memory, drift of the book and over-booked cards are what is judged."""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from clusters.embedded.scheduling.window import feasible_nodes_to_find
from clusters.provider import ClusterError
from load.bench.servers import CannotMeasureError
from load.flags import count
from load.play import pictures
from load.play.command import CLUSTERS, has_locust, measure
from load.play.growth import Promise
from load.play.plan import Plan
from load.play.running import Order
from load.simulated.cluster_file import ClusterFileError, read

# Memory is flat where it grows by no more than this an hour, in parts of what it is: a leak of a pod's size for each pod that comes
# would be many times that.
MOST_GROWTH: Final = 0.05
# Over less than this, in seconds, memory has no slope: what is filled once would be a leak.
_SHORTEST: Final = 600.0
# Until the extender has met all sizes of pods, and its tables are as full as they get: this part of the run counts for no slope.
_WARM_UP: Final = 0.25
_EPILOG: Final = """The API server is simulated, and counts cards that have more than they hold; a pod ends for each that is
bound. Exit codes: 0 measured, and all is as promised; 1 something could not be measured, as memory in a run of minutes; 2 wrong
flags; 99 a promise is broken; 130 stopped."""


def add_to(commands: Any) -> None:
    """The command, among others."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "soak",
        help="pods come and go for half an hour: is memory flat, and the book right?",
        description="Locust's scheduler schedules twice as many pods as make load does, for long, while the book is audited.",
        epilog=_EPILOG,
    )
    add = parser.add_argument
    add("--seconds", type=count, default=1800, metavar="N", help="how long pods come (default: %(default)s)")
    add("--rate", type=count, default=40, metavar="N", help="pods a second (default: %(default)s)")
    add("--events", type=count, default=200, metavar="N", help="watch events a second beside (default: %(default)s)")
    add(
        "--cluster", type=Path, default=CLUSTERS / "nodes-1000.yaml", metavar="FILE",
        help="simulated cluster (default: 1,000 nodes)",
    )  # fmt: skip
    add(
        "--audit-seconds",
        type=_audit_seconds,
        default=30,
        metavar="N",
        help="between two audits (default: %(default)s)",
    )
    add(
        "--output", "-o", type=Path, default=Path("load-results") / "soak", metavar="DIR", help="(default: %(default)s)"
    )  # fmt: skip
    parser.set_defaults(run=run_command)


def run_command(flags: argparse.Namespace) -> int:
    """The exit code."""
    if not has_locust():
        return 1
    try:
        run = asyncio.run(measure(_order(flags), flags.output))
    except (CannotMeasureError, ClusterError, ClusterFileError, OSError) as error:
        print(f"load: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    found = promises(run)
    run["verdicts"] = [{"text": _line(one), "kept": bool(one.is_kept)} for one in found]
    path = flags.output / "load.json"
    path.write_text(json.dumps(run, indent=1) + "\n", encoding="utf-8")
    paths = [path, *(pictures.draw(run, flags.output) if pictures.can_draw() else ())]
    print(text(run))
    print("\n".join(map(_line, found)))
    print("\n" + "\n".join(f"wrote {one}" for one in paths))
    if any(one.is_kept is False for one in found):
        return 99
    return 0 if all(one.is_kept for one in found) else 1


def promises(run: Mapping[str, Any]) -> list[Promise]:
    """What a soak must keep. Pure."""
    outcome, samples = run["outcome"], run["outcome"]["samples"]
    slope = growth(samples)
    failed = [one["failed_audits"] for one in samples if "failed_audits" in one]
    drifts = [one["drift_units"] for one in samples if one.get("audits")]
    return [
        Promise("memory grows, parts of it an hour", MOST_GROWTH, None if slope is None else round(slope, 4)),
        Promise("units that an audit found booked otherwise than the API says", 0, max(drifts, default=None)),
        Promise("audits that failed", 0, max(failed, default=None)),
        Promise("cards that the API showed over-booked", 0, outcome["counts"]["over_booked"]),
        Promise("questions that failed", 0, sum(row["failures"] for row in run["rows"])),
    ]


def _line(promise: Promise) -> str:
    """What was not measured is not kept."""
    value = "not measured" if promise.value is None else f"{promise.value:g}"
    return f"{'kept   ' if promise.is_kept else 'BROKEN '} {promise.what}: {value}, at most {promise.most:g}"


def growth(samples: Sequence[Mapping[str, float]]) -> float | None:
    """By how much memory grows in an hour, in parts of its mean, by least squares after the warm-up; None for too short a run."""
    points = [(one["at"] / 3600, one["rss_mib"]) for one in samples[int(len(samples) * _WARM_UP) :]]
    if len(points) < 2 or (points[-1][0] - points[0][0]) * 3600 < _SHORTEST:
        return None
    hours, memory = zip(*points, strict=True)
    slope: float = statistics.linear_regression(hours, memory).slope
    mean: float = statistics.mean(memory)
    return slope / mean


def text(run: Mapping[str, Any]) -> str:
    """What happened, in a few lines. Pure."""
    outcome, samples = run["outcome"], run["outcome"]["samples"]
    counts, memory = outcome["counts"], [one["rss_mib"] for one in samples]
    audits = max((one.get("audits", 0.0) for one in samples), default=0.0)
    lines = [
        f"{run['cluster']['nodes']} simulated nodes, {run['order']['rate']:g} pods/s for {run['order']['seconds']:g} s, "
        f"{run['order']['events']} events/s: {counts['created']} pods came, {counts['binds']} were bound, {counts['ended']} ended",
        f"the extender had {memory[0]:.1f} MiB at first, {memory[-1]:.1f} at the end, {max(memory):.1f} at most; "
        f"{audits:.0f} audits"
        if memory
        else "the extender's memory was not seen",
    ]
    lines += [
        f"{row['verb']}: {row['count']}, p50 {row['p50']:.2f} ms, p99 {row['p99']:.2f} ms, longest {row['max']:.2f} ms"
        for row in run["rows"]
        if row["extender"] == "gpushare" and row["p50"] is not None
    ]
    return "\n".join(lines)


def _audit_seconds(value: str) -> int:
    """Oftener than every ten seconds the extender refuses."""
    found = count(value)
    if found < 10:
        raise argparse.ArgumentTypeError(f"{value!r} is less than 10")
    return found


def _order(flags: argparse.Namespace) -> Order:
    """Raises ClusterFileError."""
    nodes = read(flags.cluster).nodes
    plan = Plan(
        cluster=str(flags.cluster.resolve()),
        window=feasible_nodes_to_find(nodes, 0),
        rate=flags.rate,
        seconds=flags.seconds,
        records=str(flags.output.resolve()),
    )
    return Order(plan, flags.events, audit_seconds=flags.audit_seconds)
