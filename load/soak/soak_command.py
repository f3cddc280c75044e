"""``python -m load soak``: pods come and go for long; memory, drift of the book and over-booked cards are what is judged."""

from __future__ import annotations

import argparse
import asyncio
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, Final

from clusters.embedded.scheduling.window import feasible_nodes_to_find
from gpushare.extender.core.book import ENDED_REMEMBERED
from load.load_commands import add_cluster, add_output, count
from load.load_reports import Promise, write
from load.play.load_plan import Plan
from load.play.play_running import Order
from load.play.run_command import measure
from load.simulated.cluster_file import read
from load.soak import soak_on_control_plane

SIMULATED, CONTROLPLANE = "simulated", "controlplane"
# Pods a second. Two cores are full with what real programs do for 40.
_RATES: Final = {SIMULATED: 40, CONTROLPLANE: 20}
# Watch events a second beside, if the API server is simulated.
_EVENTS: Final = 200
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
_EPILOG: Final = """Simulated: a simulated API server, and Locust plays kube-scheduler. Control plane (make control-plane
builds it): both are real, and kwok says that pods run. Cards are counted by what the API shows, and a pod ends for each that is
bound. Exit codes: 0 measured, and all is as promised; 1 something could not be measured, as memory in a run of minutes; 2 wrong
flags; 99 a promise is broken; 130 stopped."""


def add_to(commands: Any) -> None:
    """The command, among others."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "soak",
        help="pods come and go for half an hour: is memory flat, and the book right?",
        description="Pods come and as many end, for long, while the book is audited.",
        epilog=_EPILOG,
    )
    add = parser.add_argument
    add("--seconds", type=count, default=1800, metavar="N", help="how long pods come (default: %(default)s)")
    add(
        "--rate",
        type=count,
        metavar="N",
        help=f"pods a second (default: {_RATES[SIMULATED]}, on a control plane {_RATES[CONTROLPLANE]})",
    )
    add(
        "--provider",
        choices=(SIMULATED, CONTROLPLANE),
        default=SIMULATED,
        help="API server and scheduler (default: %(default)s)",
    )
    add_cluster(parser)
    add(
        "--audit-seconds",
        type=_audit_seconds,
        default=30,
        metavar="N",
        help="between two audits (default: %(default)s)",
    )
    add_output(parser, "load-results/soak")
    parser.set_defaults(name="load", run=_run)


def _run(flags: argparse.Namespace) -> int:
    """Print and keep what was found; the exit code."""
    flags.rate = flags.rate or _RATES[flags.provider]
    soak = soak_on_control_plane.measure if flags.provider == CONTROLPLANE else _simulated
    run = asyncio.run(soak(flags))
    found = promises(run)
    run["verdicts"] = [{"text": one.text(), "kept": bool(one.is_kept)} for one in found]
    path = flags.output / "load.json"
    write(path, run)
    print("\n".join([text(run), *(one.text() for one in found), "", f"wrote {path}"]))
    if any(one.is_kept is False for one in found):
        return 99
    return 0 if all(one.is_kept for one in found) else 1


def _audit_seconds(value: str) -> int:
    """Oftener than every ten seconds the extender refuses."""
    found = count(value)
    if found < 10:
        raise argparse.ArgumentTypeError(f"{value!r} is less than 10")
    return found


async def _simulated(flags: argparse.Namespace) -> dict[str, Any]:
    """Raises CannotMeasureError, ClusterError, LoadError, OSError."""
    nodes = read(flags.cluster).nodes
    plan = Plan(
        cluster=str(flags.cluster.resolve()),
        window=feasible_nodes_to_find(nodes, 0),
        rate=flags.rate,
        seconds=flags.seconds,
        records=str(flags.output.resolve()),
    )
    run = await measure(Order(plan, _EVENTS, audit_seconds=flags.audit_seconds), flags.output)
    run["setting"] = (
        f"{nodes} simulated nodes, {flags.rate} pods/s for {flags.seconds} s, {_EVENTS} events/s, a simulated API server"
    )
    return run


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
    counts, memory = outcome["counts"], [one["rss_mib"] for one in samples]
    audits = max((one.get("audits", 0.0) for one in samples), default=0.0)
    lines = [
        f"{run['setting']}: {counts['created']} pods came, {counts['binds']} were bound, {counts['ended']} ended",
        f"the extender had {memory[0]:.1f} MiB at first, {memory[-1]:.1f} at the end, {max(memory):.1f} at most; "
        f"{audits:.0f} audits"
        if memory
        else "the extender's memory was not seen",
        f"memory is judged from {warm_up(run):.0f} s on: by then the extender has forgotten as many pods as it has come to know",
    ]
    lines += [
        f"{row['verb']}: {row['count']}, p50 {row['p50']:.2f} ms, p99 {row['p99']:.2f} ms"
        + (f", longest {row['max']:.2f} ms" if "max" in row else "")
        for row in run["rows"]
        if row["extender"] == "gpushare" and row["p50"] is not None
    ]
    return "\n".join(lines)
