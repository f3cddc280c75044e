"""``python -m load run``: flags, each checked as it is read, to a folder of results, a table and a verdict."""

from __future__ import annotations

import argparse
import asyncio
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from clusters.embedded.scheduling.configuration import feasible_nodes_to_find
from gpushare import wire
from load.load_commands import CLUSTERS, add_output, count, port, read_data, seed
from load.load_reports import Promise, write
from load.play import curves, results, soak
from load.play.load_plan import CURVES, SHAPES, SOAK, TRACE, VERBS, Plan, weights_of
from load.play.others import BASELINE, Foreign, is_url
from load.play.play_running import OF_ORDER, OF_PLAN, OURS, Order, measure
from load.questions import PREFIX
from load.replay.trace import SAMPLE, creation_times
from load.simulated.cluster_file import read

_BOUNDS: Final = Path(__file__).parents[1] / "bounds.yaml"
_CARDS_SHOWN: Final = 10
# Seconds, pods a second, and watch events a second beside, of shapes that have their own.
_USUAL: Final = (60, 20, 100)
_DEFAULTS: Final = {CURVES: (20, 40, 100), SOAK: (1800, 40, 200)}
_EPILOG: Final = """The API server is simulated, the extender and every question are real; all is on loopback. Exit codes: 0
measured, and the bounds are kept; 1 it could not be measured; 2 wrong flags; 99 a bound, or what curves or soak judge, is broken
by any extender of the run, or a card was over-booked; 130 stopped. Quote ratios: absolute times are this machine's."""


def add_to(commands: Any) -> None:
    """The command, among others."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "run",
        help="play kube-scheduler in front of an extender on a large simulated cluster",
        description="Locust users play kube-scheduler in front of the extender, on a simulated cluster of any size.",
        epilog=_EPILOG,
    )
    _add_load(parser)
    _add_extenders(parser)
    add_output(parser, "load-results")
    parser.set_defaults(name="load", run=_run, refuse=parser.error)


def _add_load(parser: argparse.ArgumentParser) -> None:
    """The cluster, the pods that come, and the users beside."""
    add = parser.add_argument
    about = "simulated cluster (default: 1,000 nodes)"
    add("--cluster", type=Path, default=CLUSTERS / "nodes-1000.yaml", metavar="FILE", help=about)
    about = (
        "when pods come; curves: steadily, on clusters of 100 to 15,000 nodes, one after the other; soak: steadily, for "
        "half an hour, while memory and the book are judged (default: %(default)s)"
    )
    add("--shape", choices=[*SHAPES, TRACE], default="steady", help=about)
    about = (
        "with --shape trace: pods come when those of this trace did, its time shortened to --seconds and its mean rate made "
        "--rate; how large they are the cluster says (default: a small synthetic trace that ships with this)"
    )
    add("--trace", type=Path, default=SAMPLE, metavar="DIR", help=about)
    add("--seconds", type=count, metavar="N", help="how long pods come (default: 60; curves 20 each, soak 1800)")
    add("--rate", type=count, metavar="N", help="pods a second on average (default: 20; curves and soak 40)")
    add("--events", type=seed, metavar="N", help="watch events a second beside (default: 100; soak 200)")
    about = "nodes in a question (default: as many as kube-scheduler sends)"
    add("--names", type=count, metavar="N", help=about)
    add(
        "--schedulers",
        type=count,
        default=1,
        metavar="N",
        help="each serial, as the real one is (default: %(default)s)",
    )
    about = "users that ask for all cards each second (default: 0)"
    add("--inspectors", type=seed, default=0, metavar="N", help=about)
    about = "users that ask each second where a pod would go (default: 0)"
    add("--what-if", type=seed, default=0, metavar="N", help=about)
    about = "users that have our extender's page open; it serves 16 at most (default: 0)"
    add("--viewers", type=seed, default=0, metavar="N", help=about)
    about = "Locust processes beside a master (default: 0, one process alone)"
    add("--workers", type=seed, default=0, metavar="N", help=about)
    about = "show Locust's pages at http://127.0.0.1:PORT meanwhile"
    add("--web-port", type=port, default=0, metavar="PORT", help=about)


def _add_extenders(parser: argparse.ArgumentParser) -> None:
    """Ours, the others, and what they must keep."""
    add = parser.add_argument
    add("--tls", action="store_true", help="over TLS, with a client's certificate")
    about = (
        "another extender, which gets as many pods: one that follows --api-port already, or the command that starts one, with "
        "{port} and {kubeconfig} in its words, or PORT and KUBECONFIG in its environment"
    )
    add("--against", action="append", type=_url_or_command, default=[], metavar="URL|CMD", help=about)
    about = "of the extenders of --against, the path before the verbs; / for the root, as HAMi has them (default: %(default)s)"
    add("--path", type=_path, default=PREFIX, metavar="PATH", help=about)
    about = (
        "of the extenders of --against, the verbs that are asked, as kube-scheduler is configured; without prioritize a node "
        "that passes is chosen at random (default: filter,prioritize,bind)"
    )
    add("--verbs", type=_verbs, default=dict(VERBS), metavar="VERB[=NAME],...", help=about)
    about = "our own extender as of this commit gets as many pods, and the bounds over it are judged; not with --tls"
    add("--baseline", type=_commit, default="", metavar="COMMIT", help=about)
    add("--api-port", type=port, default=0, metavar="PORT", help="of the simulated API server (default: a free one)")
    about = "what a run must keep, and of which extenders (to: gpushare, others, all, or a name) (default: load/bounds.yaml)"
    add("--bounds", type=Path, default=_BOUNDS, metavar="FILE", help=about)


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
    if flags.shape == SOAK and (flags.against or flags.baseline):
        flags.refuse("--shape soak judges our extender alone, without --against and --baseline")
    seconds, rate, events = _DEFAULTS.get(flags.shape, _USUAL)
    flags.seconds, flags.rate = flags.seconds or seconds, flags.rate or rate
    flags.events = events if flags.events is None else flags.events
    folder: Path = flags.output
    if flags.shape == CURVES:
        return asyncio.run(curves.run(_order(flags), folder / CURVES))
    if flags.shape == SOAK:
        found = asyncio.run(measure(_order(flags), folder / SOAK))
        # A short run has no slope of memory, which breaks nothing.
        return _finish(found, soak.promises(found), folder / SOAK / "load.json", 1)
    bounds = read_data(flags.bounds, results.Bounds).bounds
    bounds = [one for one in bounds if one.over != BASELINE or flags.baseline]
    bounds = [one for one in bounds if not one.verb.startswith("ui") or flags.viewers]
    found = asyncio.run(measure(_order(flags), folder))
    # If there is no floor, nothing was found out about what needs it.
    of_unknown = 99 if found["order"]["has_floor"] else 1
    return _finish(found, results.judge(bounds, found["rows"], OURS), folder / "load.json", of_unknown)


def _finish(found: dict[str, Any], verdicts: Sequence[Promise], path: Path, of_unknown: int) -> int:
    """Print and keep what was found; the exit code, which is ``of_unknown`` if a promise was not measured."""
    outcome = found["outcome"]
    # Extenders beside each other may over-book a card before they see each other's bindings; that is no fault of theirs.
    several = len({row["extender"] for row in found["rows"]}) > 1
    over_booked = outcome["counts"]["over_booked_knowingly" if several else "over_booked"]
    found["verdicts"] = [{"text": one.text(), "kept": bool(one.is_kept)} for one in verdicts]
    text = _over_booked(over_booked, outcome["over_booked_cards"], outcome["counts"]["binds_without_card"])
    found["verdicts"].append({"text": text, "kept": not over_booked})
    broken = found["broken_promises"]
    found["verdicts"] += [{"text": text, "kept": False} for text in broken]
    write(path, found)
    print(results.text(found))
    if not found["order"]["has_floor"]:
        print("the server that does nothing is not there (no cc, gcc or clang), so nothing is said over it")
    print(f"\nwrote {path}")
    if over_booked or broken or any(one.is_kept is False for one in verdicts):
        return 99
    return 0 if all(one.is_kept for one in verdicts) else of_unknown


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
        message = f"load: {flags.cluster}: no card holds a pod of {sizes} GiB: such pods will wait for ever"
        print(message, file=sys.stderr)
    weights = weights_of(creation_times(flags.trace, "default"), flags.seconds) if flags.shape == TRACE else ()
    plan = Plan(
        cluster=str(flags.cluster.resolve()),
        window=min(flags.names or feasible_nodes_to_find(nodes, 0), nodes),
        weights=tuple(weights),
        **{name: getattr(flags, name) for name in OF_PLAN},
    )
    return Order(
        plan,
        foreign=Foreign(tuple(flags.against), flags.path, flags.verbs),
        api_port=flags.api_port,
        web_port=flags.web_port,
        audit_seconds=soak.AUDIT_SECONDS if flags.shape == SOAK else 0,
        **{name: getattr(flags, name) for name in OF_ORDER},
    )
