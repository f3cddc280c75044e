"""``python -m load replay``: flags to table or JSON. One seed is one task of a process of its own."""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from pathlib import Path
from typing import Any, Final

from clusters.processes.progress import Progress
from clusters.processes.tied import die_with_parent
from gpushare import wire
from load.load_commands import LoadError, count, seed
from load.replay import cluster_record, replay_report, replay_wire
from load.replay.extender_replay import arrivals, expected_of, ratios, replay
from load.replay.trace import SAMPLE, Trace, read

_EPILOG: Final = """The protocol is that of the published figures: pods come in a random order until they ask for 130 % of all
cards, stay for ever, and who fits nowhere is passed over; CPU, memory, cards and wished models count. Exit codes: 0 replayed;
1 the trace cannot be read, or a pod lies elsewhere over the wire; 2 wrong flags."""


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
    parser.add_argument(
        "--wire", action="store_true",
        help="replay each seed through a real extender over HTTP and an embedded API server as well, and compare pod by pod "
        "(minutes a seed; needs --expect trace)",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="one object on stdout instead of the table")
    parser.set_defaults(name="replay", run=_replay, refuse=parser.error)


def _replay(options: argparse.Namespace) -> int:
    if options.wire and options.expect != "trace":
        options.refuse("--wire needs --expect trace: what was seen when depends on the pace of the watch")
    trace, others = _read(options)
    runs = _replay_all(trace, options)
    if not options.json:
        print(replay_report.text(trace.workload, options.policy, runs, others))
    over_wire = _check_wire(trace, options)
    if options.json:
        found = replay_report.as_json(trace.workload, options.policy, runs, others)
        print(json.dumps(found | ({"wire": replay_wire.as_json(over_wire)} if over_wire else {}), indent=1))
    elif over_wire:
        print(replay_wire.text(over_wire))
    return 1 if any(one.different for one in over_wire) else 0


def _read(options: argparse.Namespace) -> tuple[Trace, Mapping[str, replay_report.Curve]]:
    """The trace to replay, and the published figures for it. Raises LoadError."""
    if options.from_cluster is None:
        return read(options.trace, options.workload), replay_report.published(options.trace, options.workload)
    trace, left_out = cluster_record.read(options.from_cluster)
    for words in left_out:
        print(f"replay: {options.from_cluster}: {words}", file=sys.stderr)
    return trace, {}


def _replay_all(trace: Trace, options: argparse.Namespace) -> list[replay_report.Run]:
    seeds = _seeds(options)
    title = f"replaying {len(trace.pods)} pods on {len(trace.nodes)} nodes, {len(seeds)} seeds"
    once = partial(replay_once, trace, options.policy, expects=options.expect == "trace")
    with Progress("replay", title, sys.stderr) as progress:
        found: list[replay_report.Run] = []
        try:
            for one in _each(once, seeds):
                found.append(one)
                progress.detail = f"{len(found)} of {len(seeds)}"
        except BrokenProcessPool as error:
            raise LoadError(str(error)) from error
    return sorted(found, key=lambda one: one.seed)


def _check_wire(trace: Trace, options: argparse.Namespace) -> list[replay_wire.WireRun]:
    if not options.wire:
        return []
    with Progress("replay", "starting an API server and an extender", sys.stderr) as progress:
        return asyncio.run(replay_wire.check_all(trace, options.policy, _seeds(options), progress))


def _seeds(options: argparse.Namespace) -> range:
    return range(options.first_seed, options.first_seed + options.seeds)


def _each(once: Callable[[int], replay_report.Run], seeds: Sequence[int]) -> Iterator[replay_report.Run]:
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


def replay_once(trace: Trace, policy: str, seed: int, *, expects: bool) -> replay_report.Run:
    """One seed; ``expects``: the policy knows beforehand which pods come, and how often."""
    started = time.monotonic()
    pods = arrivals(trace, seed)
    steps = list(replay(trace, pods, policy, seed, expected_of(trace) if expects else None))
    found = ratios(trace, steps, [demand / 100 for demand in replay_report.DEMANDS])
    placed = sum(1 for step in steps if step.node)
    return replay_report.Run(seed, found, time.monotonic() - started, len(pods), placed)
