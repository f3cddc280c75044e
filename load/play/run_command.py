"""``python -m load run``: flags, each checked as it is read, to a folder of results, a table and a verdict."""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from clusters.embedded.scheduling.window import feasible_nodes_to_find
from clusters.processes.progress import Progress
from clusters.processes.scratch import scratch_folder
from gpushare import wire
from load.bench.bench_questions import PREFIX
from load.load_commands import CannotMeasureError, add_cluster, add_output, count, port, read_data, seed
from load.load_reports import machine, write
from load.play import load_guard, play_report, results
from load.play.load_plan import SHAPES, TRACE, VERBS, Plan, weights_of
from load.play.others import BASELINE, Foreign, is_url
from load.play.play_running import OURS, Order, run
from load.replay.trace import SAMPLE, creation_times
from load.simulated.cluster_file import read

_BOUNDS: Final = Path(__file__).parents[1] / "bounds.yaml"
_CARDS_SHOWN: Final = 10
# Flags that go as they are into the plan, the order and the file.
_OF_PLAN: Final = ("shape", "rate", "seconds", "schedulers", "inspectors", "what_if", "viewers", "seed")
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
    _add_flags(parser)
    add_output(parser, "load-results")
    parser.set_defaults(name="load", run=_run, refuse=parser.error)


def _add_flags(parser: argparse.ArgumentParser) -> None:
    """All but the output folder."""
    add_cluster(parser)
    add = parser.add_argument
    shapes = [*sorted(SHAPES), TRACE]
    add("--shape", choices=shapes, default="steady", help="when pods come (default: %(default)s)")
    add("--tls", action="store_true", help="over TLS, with a client's certificate")
    about = (
        "another extender, which gets as many pods: one that follows --api-port already, or the command that starts one, with "
        "{port} and {kubeconfig} in its words, or PORT and KUBECONFIG in its environment"
    )
    add("--against", action="append", type=_url_or_command, default=[], metavar="URL|CMD", help=about)
    for name, (metavar, kind, default, about) in _flags().items():
        add(name, metavar=metavar, type=kind, default=default, help=about)


def _flags() -> dict[str, tuple[str, Callable[[str], object], object, str]]:
    """By its name, the value of a flag as it is shown, its reader, its default, and what it is."""
    return {
        "--seconds": ("N", count, 60, "how long pods come (default: %(default)s)"),
        "--rate": ("N", count, 20, "pods a second on average (default: %(default)s)"),
        "--trace": (
            "DIR",
            Path,
            SAMPLE,
            "with --shape trace: pods come when those of this trace did, its time shortened to --seconds and its mean rate made "
            "--rate; how large they are the cluster says (default: a small synthetic trace that ships with this)",
        ),
        "--workload": ("NAME", str, "default", "of the trace: reads openb_pod_list_NAME.csv (default: default)"),
        "--schedulers": ("N", count, 1, "each serial, as the real one is (default: %(default)s)"),
        "--names": ("N", count, None, "nodes in a question (default: what kube-scheduler sends on so many nodes)"),
        "--inspectors": ("N", seed, 0, "users that ask for all cards each second (default: 0)"),
        "--what-if": ("N", seed, 0, "users that ask each second where a pod would go (default: 0)"),
        "--viewers": ("N", seed, 0, "users that have our extender's page open; it serves 16 at most (default: 0)"),
        "--events": ("N", seed, 100, "watch events a second beside (default: %(default)s)"),
        "--path": (
            "PATH",
            _path,
            PREFIX,
            "of the extenders of --against, the path before the verbs; / for the root, as HAMi has them (default: %(default)s)",
        ),
        "--verbs": (
            "VERB[=NAME],...",
            _verbs,
            dict(VERBS),
            "of the extenders of --against, the verbs that are asked, as kube-scheduler is configured; without prioritize a node "
            "that passes is chosen at random (default: filter,prioritize,bind)",
        ),
        "--ready": (
            "PATH|URL",
            str,
            "",
            "of the extenders of --against, what answers 2xx once they can be asked (default: a program listens, a URL is up)",
        ),
        "--baseline": (
            "COMMIT",
            _commit,
            "",
            "our own extender as of this commit gets as many pods, and the bounds over it are judged; not with --tls",
        ),
        "--api-port": ("PORT", port, 0, "of the simulated API server (default: a free one)"),
        "--workers": ("N", seed, 0, "Locust processes beside a master (default: 0, one process alone)"),
        "--web-port": ("PORT", port, 0, "show Locust's pages at http://127.0.0.1:PORT meanwhile"),
        "--bounds": (
            "FILE",
            Path,
            _BOUNDS,
            "what a run must keep, and of which extenders (to: gpushare, others, all, or a name) (default: load/bounds.yaml)",
        ),
        "--seed": ("N", seed, 1, "of the pods that come (default: %(default)s)"),
    }


def _url_or_command(text: str) -> str:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no command: {error}") from error
    if not words:
        raise argparse.ArgumentTypeError("neither a URL nor a command")
    return text


def _path(text: str) -> str:
    path = text.strip("/")
    return f"/{path}" if path else ""


def _verbs(text: str) -> dict[str, str]:
    pairs = [one.partition("=") for one in text.split(",")]
    found = {verb: (name or verb).strip("/") for verb, _, name in pairs}
    if unknown := sorted(found.keys() - VERBS.keys()):
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is no verb that a run asks: {', '.join(VERBS)}")
    if missing := sorted({"filter", "bind"} - found.keys()):
        raise argparse.ArgumentTypeError(f"{missing[0]} is missing: a run asks every extender to filter and to bind")
    return found


def _commit(text: str) -> str:
    if text.startswith("-"):
        raise argparse.ArgumentTypeError(f"{text!r} is no commit")
    return text


def _run(flags: argparse.Namespace) -> int:
    if any(map(is_url, flags.against)) and not flags.api_port:
        flags.refuse("--against URL needs --api-port: the other extender must follow the API server of this run")
    if flags.baseline and flags.tls:
        flags.refuse("--baseline is asked over plain HTTP, so it cannot be compared over --tls")
    bounds = read_data(flags.bounds, load_guard.Bounds).bounds
    bounds = [one for one in bounds if one.over != BASELINE or flags.baseline]
    bounds = [one for one in bounds if not one.verb.startswith("ui") or flags.viewers]
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
