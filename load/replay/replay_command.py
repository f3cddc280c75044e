"""``python -m load replay``: flags to table or JSON, beside published policies. One seed is one task of a process of its own."""

from __future__ import annotations

import argparse
import csv
import json
import multiprocessing
import os
import signal
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from clusters.processes.commands import Progress
from clusters.processes.tied import die_with_parent
from gpushare import wire
from load.load_commands import LoadError, count, seed
from load.load_reports import table
from load.replay import cluster_record
from load.replay.extender_replay import arrivals, expected_of, ratios, replay
from load.replay.trace import SAMPLE, Trace, read

_EPILOG: Final = """The protocol is that of the published figures: pods come in a random order until they ask for 130 % of all
cards, stay for ever, and one that fits nowhere is passed over; CPU, memory, cards and wished models count. Exit codes: 0
replayed; 1 the trace cannot be read; 2 wrong flags."""
PUBLISHED_FILE: Final = "published_allocation_ratio.csv"
# The arrived demands of the table, in percent of all cards; the last is the one that is quoted.
DEMANDS: Final = (90, 95, 100, 110, 120, 130)

# Mean and standard deviation by arrived demand, in percent.
Curve = Mapping[int, tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Run:
    """One seed: the share of all cards that was allocated at each of ``DEMANDS``, in percent, and how long the replay took."""

    seed: int
    ratios: Sequence[float]
    seconds: float
    pods: int
    placed: int


def add_to(commands: Any) -> None:
    """The command, among others."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "replay",
        help="how much of its cards a policy allocates on a production trace",
        description="Replay a trace of pods through the extender's own decisions, and say how much of all cards is allocated.",
        epilog=_EPILOG,
    )
    source = parser.add_mutually_exclusive_group()
    source.add_argument(
        "--trace", type=Path, default=SAMPLE, metavar="DIR",
        help="folder with the files of openb (default: a small synthetic trace that ships with this)",
    )  # fmt: skip
    source.add_argument(
        "--from-cluster", type=Path, metavar="DIR",
        help=f"one's own cluster: a folder with {cluster_record.NODES_FILE} (kubectl get nodes -o json) and "
        f"{cluster_record.PODS_FILE} (kubectl get pods -A -o json, with --watch for a history)",
    )  # fmt: skip
    parser.add_argument(
        "--workload", default="default", help="of a trace: reads openb_pod_list_WORKLOAD.csv (default: default)"
    )
    parser.add_argument(
        "--policy",
        choices=wire.POLICIES,
        default=wire.POLICY_FRAGMENTATION,
        help="of the extender (default: fragmentation)",
    )
    parser.add_argument("--seeds", type=count, default=10, metavar="N", help="how many orders of arrival (default: 10)")
    parser.add_argument(
        "--first-seed", type=seed, default=0, metavar="N", help="each of the others is the next (default: 0)"
    )
    parser.add_argument(
        "--expect", choices=("trace", "seen"), default="trace",
        help="fragmentation knows from the list how often which pods come, as the published policies do, or goes by those seen "
        "(default: trace)",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="one object on stdout instead of the table")
    parser.set_defaults(name="replay", run=_replay)


def _replay(options: argparse.Namespace) -> int:
    trace, others = _read(options)
    runs = _replay_all(trace, options)
    show = _as_json if options.json else _text
    print(show(trace.workload, options.policy, runs, others))
    return 0


def _read(options: argparse.Namespace) -> tuple[Trace, Mapping[str, Curve]]:
    """The trace to replay, and the published figures for it. Raises LoadError."""
    if options.from_cluster is None:
        return read(options.trace, options.workload), _published(options.trace, options.workload)
    trace, left_out = cluster_record.read(options.from_cluster)
    for words in left_out:
        print(f"replay: {options.from_cluster}: {words}", file=sys.stderr)
    return trace, {}


def _replay_all(trace: Trace, options: argparse.Namespace) -> list[Run]:
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    title = f"replaying {len(trace.pods)} pods on {len(trace.nodes)} nodes, {len(seeds)} seeds"
    once = partial(replay_once, trace, options.policy, expects=options.expect == "trace")
    with Progress("replay", title, sys.stderr) as progress:
        found: list[Run] = []
        try:
            for one in _each(once, seeds):
                found.append(one)
                progress.detail = f"{len(found)} of {len(seeds)}"
        except BrokenProcessPool as error:
            raise LoadError(str(error)) from error
    return sorted(found, key=lambda one: one.seed)


def _each(once: Callable[[int], Run], seeds: Sequence[int]) -> Iterator[Run]:
    """In the order in which they end. After a signal the runs under way are not waited for."""
    if len(seeds) == 1:
        yield from map(once, seeds)
        return
    # A fork copies locks that other threads hold at that moment (gRPC's, a log's), and the copy could crash or wait for ever.
    fresh = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(os.cpu_count() or 1, len(seeds)), fresh, _begin_process)
    try:
        begun = [pool.submit(once, seed) for seed in seeds]
        yield from (one.result() for one in as_completed(begun))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _begin_process() -> None:
    """Let Ctrl-C end this process without a traceback, and let it end with its parent."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    die_with_parent()


def replay_once(trace: Trace, policy: str, seed: int, *, expects: bool) -> Run:
    """One seed; ``expects``: the policy knows beforehand which pods come, and how often."""
    started = time.monotonic()
    pods = arrivals(trace, seed)
    steps = list(replay(trace, pods, policy, seed, expected_of(trace) if expects else None))
    found = ratios(trace, steps, [demand / 100 for demand in DEMANDS])
    placed = sum(1 for step in steps if step.node)
    return Run(seed, found, time.monotonic() - started, len(pods), placed)


def _curve(runs: Sequence[Run]) -> Curve:
    """Over the seeds."""
    columns = zip(*(run.ratios for run in runs), strict=True)
    return {
        demand: (statistics.mean(column), statistics.stdev(column) if len(runs) > 1 else 0.0)
        for demand, column in zip(DEMANDS, columns, strict=True)
    }


def _published(folder: Path, workload: str) -> Mapping[str, Curve]:
    """The published figures of this workload, by policy; none if the folder has none. Raises LoadError."""
    path = folder / PUBLISHED_FILE
    if not path.exists():
        return {}
    found: dict[str, dict[int, tuple[float, float]]] = {}
    try:
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                if row["workload"].removeprefix("openb_pod_list_") == workload:
                    of = found.setdefault(row["policy"].partition("-")[2] or row["policy"], {})
                    of[int(row["arrived_pct"])] = float(row["mean_allocated_pct"]), float(row["stdev"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, csv.Error) as error:
        raise LoadError(f"{path}: not the figures of published policies: {error!r}") from error
    return found


def _as_json(workload: str, policy: str, runs: Sequence[Run], others: Mapping[str, Curve]) -> str:
    """One object; ``allocation_ratio_percent`` is the mean at the last of ``DEMANDS``."""
    found = _curve(runs)
    mean, deviation = found[DEMANDS[-1]]
    document = {
        "workload": workload,
        "policy": policy,
        "seeds": [run.seed for run in runs],
        "arrived_percent": DEMANDS[-1],
        "allocation_ratio_percent": round(mean, 4),
        "standard_deviation": round(deviation, 4),
        "seconds_per_replay": round(statistics.mean(run.seconds for run in runs), 3),
        "curve": _points(found),
        "runs": [
            {
                "seed": run.seed,
                "allocation_ratio_percent": round(run.ratios[-1], 4),
                "pods": run.pods,
                "placed": run.placed,
                "seconds": round(run.seconds, 3),
            }
            for run in runs
        ],
        "published": {name: _points(of) for name, of in others.items()},
    }
    return json.dumps(document, indent=1)


def _text(workload: str, policy: str, runs: Sequence[Run], others: Mapping[str, Curve]) -> str:
    """A table: a row a policy, the best at the last demand first."""
    last = DEMANDS[-1]
    rows = {f"{policy} (ours)": _curve(runs)} | dict(others)
    order = sorted(rows, key=lambda name: -rows[name].get(last, (0.0, 0.0))[0])
    seeds = f"{len(runs)} seed{'s' if len(runs) > 1 else ''}"
    return "\n".join(
        [
            "allocated share of all cards in percent, mean ± standard deviation, by arrived demand; "
            f"workload {workload}, {seeds}",
            *table(
                ("policy", *(f"{demand} %" for demand in DEMANDS)),
                [(name, *(_cell(rows[name].get(demand)) for demand in DEMANDS)) for name in order],
            ),
            f"one replay took {statistics.mean(run.seconds for run in runs):.1f} s",
        ]
    )


def _cell(figure: tuple[float, float] | None) -> str:
    return "-" if figure is None else f"{figure[0]:.2f} ±{figure[1]:5.2f}"


def _points(of: Curve) -> list[dict[str, float]]:
    return [
        {"arrived_percent": demand, "mean": round(mean, 4), "standard_deviation": round(deviation, 4)}
        for demand, (mean, deviation) in sorted(of.items())
    ]
