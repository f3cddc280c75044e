"""``python -m load run``: flags to a folder of results, a table and a verdict."""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from clusters.embedded.scheduling.window import feasible_nodes_to_find
from clusters.processes.progress import Progress
from clusters.processes.scratch import scratch_folder
from gpushare import wire
from load.load_commands import CannotMeasureError, add_output, read_data
from load.load_reports import machine, write
from load.play import load_guard, play_report, results
from load.play.load_plan import TRACE, Plan, weights_of
from load.play.others import BASELINE, Foreign, is_url
from load.play.play_running import OURS, Order, run
from load.play.run_flags import add_flags
from load.replay.trace import creation_times
from load.simulated.cluster_file import read

_CARDS_SHOWN: Final = 10
# Flags that go as they are into the plan, the order and the file.
_OF_PLAN: Final = ("shape", "rate", "seconds", "schedulers", "inspectors", "what_if", "seed")
_OF_ORDER: Final = ("events", "tls", "baseline", "workers")
_EPILOG: Final = """The API server is simulated, the extender and every question are real; all is on loopback. Exit codes: 0
measured, and the bounds are kept; 1 it could not be measured; 2 wrong flags; 99 a bound is broken by any extender of the run, or
a card was over-booked; 130 stopped. Quote ratios:
absolute times are this machine's."""


def add_to(commands: Any) -> None:
    """The command, among others."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "run",
        help="play kube-scheduler in front of an extender on a large simulated cluster",
        description="Locust users play kube-scheduler in front of the extender, on a simulated cluster of any size.",
        epilog=_EPILOG,
    )
    add_flags(parser)
    add_output(parser, "load-results")
    parser.set_defaults(name="load", run=_run, refuse=parser.error)


def _run(flags: argparse.Namespace) -> int:
    if any(map(is_url, flags.against)) and not flags.api_port:
        flags.refuse("--against URL needs --api-port: the other extender must follow the API server of this run")
    if flags.baseline and flags.tls:
        flags.refuse("--baseline is asked over plain HTTP, so it cannot be compared over --tls")
    bounds = read_data(flags.bounds, load_guard.Bounds).bounds
    bounds = [one for one in bounds if one.over != BASELINE or flags.baseline]
    found = asyncio.run(measure(_order(flags), flags.output))
    verdicts = load_guard.judge(bounds, found["rows"], OURS)
    outcome = found["outcome"]
    # Extenders beside each other may over-book a card before they see each other's bindings; that is no fault of theirs.
    several = len({row["extender"] for row in found["rows"]}) > 1
    over_booked = outcome["counts"]["over_booked_knowingly" if several else "over_booked"]
    found["verdicts"] = [{"text": one.text(), "kept": bool(one.is_kept)} for one in verdicts]
    text = _over_booked(over_booked, outcome["over_booked_cards"], outcome["counts"]["binds_without_card"])
    found["verdicts"].append({"text": text, "kept": not over_booked})
    broken = found["broken_promises"]
    found["verdicts"] += [{"text": text, "kept": False} for text in broken]
    path = flags.output / "load.json"
    write(path, found)
    print(play_report.text(found))
    if not found["order"]["has_floor"]:
        print("the server that does nothing is not there (no cc, gcc or clang), so nothing is said over it")
    print(f"\nwrote {path}")
    if over_booked or broken:
        return 99
    if all(one.is_kept for one in verdicts):
        return 0
    # Where all that breaks is what needs the floor, and there is none, nothing was found out.
    return 99 if found["order"]["has_floor"] or any(one.is_kept is False for one in verdicts) else 1


def _over_booked(count: int, cards: Sequence[str], without_card: int) -> str:
    """The verdict over all binds of this run, by whichever extender."""
    unknown = f"; {without_card} binds wrote no {wire.ANNOTATION_INDEX}: only the sum of their node is judged"
    if not count:
        return "kept    no card was over-booked" + (unknown if without_card else "")
    shown = "; ".join(cards[:_CARDS_SHOWN]) + ("; …" if len(cards) > _CARDS_SHOWN else "")
    shown += unknown if without_card else ""
    return f"BROKEN  no card is over-booked; {count} bindings found no room on their card: {shown}"


def _order(flags: argparse.Namespace) -> Order:
    """Raises LoadError."""
    described = read(flags.cluster)
    nodes = described.nodes
    if described.too_large:
        sizes = ", ".join(map(str, described.too_large))
        print(
            f"load: {flags.cluster}: no card holds a pod of {sizes} GiB: such pods will wait for ever", file=sys.stderr
        )
    weights: tuple[float, ...] = ()
    if flags.shape == TRACE:
        weights = tuple(weights_of(creation_times(flags.trace, flags.workload), flags.seconds))
    plan = Plan(
        cluster=str(flags.cluster.resolve()),
        window=min(flags.names or feasible_nodes_to_find(nodes, 0), nodes),
        weights=weights,
        records=str(flags.output.resolve()),
        **{name: getattr(flags, name) for name in _OF_PLAN},
    )
    foreign = Foreign(tuple(flags.against), flags.path, flags.verbs, flags.ready)
    ports = {"api_port": flags.api_port, "web_port": flags.web_port}
    return Order(plan, foreign=foreign, **ports, **{name: getattr(flags, name) for name in _OF_ORDER})


async def measure(order: Order, folder: Path) -> dict[str, Any]:
    """All that a run comes to, as it goes into the JSON file; other files are in the folder by then.

    Raises LoadError, ClusterError, OSError.
    """
    if importlib.util.find_spec("locust") is None:
        raise CannotMeasureError("Locust is missing: make load installs it, or pip install '.[load]' in a checkout")
    folder.mkdir(parents=True, exist_ok=True)
    folder = folder.resolve()
    for pattern in ("requests-*.tsv", "locust.log", "load.json"):
        for path in folder.glob(pattern):
            # Left by a run before this one.
            path.unlink()
    before = os.getloadavg()[0]
    with scratch_folder() as scratch, Progress("load", "starting", sys.stderr) as progress:
        outcome, placed = await run(order, scratch, folder, progress)
    records: list[results.Record] = []
    for path in sorted(folder.glob("requests-*.tsv")):
        with path.open(encoding="utf-8") as lines:
            records += results.parse(lines)
    if not any(record.extender == OURS for record in records):
        raise CannotMeasureError("Locust asked nothing: no pod came in time")
    plan = order.plan
    cluster = Path(plan.cluster)
    return {
        "machine": machine(before),
        "cluster": {"file": cluster.name, "nodes": read(cluster).nodes},
        "order": {
            "names": plan.window,
            **{name: getattr(plan, name) for name in _OF_PLAN},
            **{name: getattr(order, name) for name in _OF_ORDER},
            "against": order.foreign.against,
            "has_floor": any(record.verb == results.FLOOR for record in records),
        },
        "outcome": outcome,
        "broken_promises": results.broken_promises(records, placed),
        "rows": results.rows(records, plan.seconds),
        "failures": results.failures(records),
    }
