"""The flags of ``python -m load run``, each checked as it is read."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import Final

from load.bench.bench_questions import PREFIX
from load.load_commands import add_cluster, count, port, seed
from load.play.load_plan import SHAPES, TRACE, VERBS
from load.replay.trace import SAMPLE

_BOUNDS: Final = Path(__file__).parents[1] / "bounds.yaml"


def add_flags(parser: argparse.ArgumentParser) -> None:
    """All but the output folder."""
    add = parser.add_argument
    add_cluster(parser)
    add("--seconds", type=count, default=60, metavar="N", help="how long pods come (default: %(default)s)")
    add("--rate", type=count, default=20, metavar="N", help="pods a second on average (default: %(default)s)")
    add("--shape", choices=[*sorted(SHAPES), TRACE], default="steady", help="when they come (default: %(default)s)")
    add(
        "--trace", type=Path, default=SAMPLE, metavar="DIR",
        help="with --shape trace: pods come when those of this trace did, its time shortened to --seconds and its mean rate made "
        "--rate; how large they are the cluster says (default: a small synthetic trace that ships with this)",
    )  # fmt: skip
    add("--workload", default="default", help="of the trace: reads openb_pod_list_WORKLOAD.csv (default: default)")
    add(
        "--schedulers",
        type=count,
        default=1,
        metavar="N",
        help="each serial, as the real one is (default: %(default)s)",
    )
    add(
        "--names",
        type=count,
        metavar="N",
        help="nodes in a question (default: what kube-scheduler sends on so many nodes)",
    )
    add("--inspectors", type=seed, default=0, metavar="N", help="users that ask for all cards each second (default: 0)")
    add(
        "--what-if",
        type=seed,
        default=0,
        metavar="N",
        help="users that ask each second where a pod would go (default: 0)",
    )
    add("--events", type=seed, default=100, metavar="N", help="watch events a second beside (default: %(default)s)")
    add("--tls", action="store_true", help="over TLS, with a client's certificate")
    add(
        "--against",
        action="append",
        type=_url_or_command,
        default=[],
        metavar="URL|CMD",
        help="another extender, which gets as many pods: one that follows --api-port already, or the command that starts one, with "
        "{port} and {kubeconfig} in its words, or PORT and KUBECONFIG in its environment",
    )
    add(
        "--path",
        type=_path,
        default=PREFIX,
        metavar="PATH",
        help="of the extenders of --against, the path before the verbs; / for the root, as HAMi has them (default: %(default)s)",
    )
    add(
        "--verbs",
        type=_verbs,
        default=dict(VERBS),
        metavar="VERB[=NAME],...",
        help="of the extenders of --against, the verbs that are asked, as kube-scheduler is configured; without prioritize a node "
        "that passes is chosen at random (default: filter,prioritize,bind)",
    )
    add(
        "--ready",
        default="",
        metavar="PATH|URL",
        help="of the extenders of --against, what answers 2xx once they can be asked (default: a program listens, a URL is up)",
    )
    add(
        "--baseline",
        type=_commit,
        default="",
        metavar="COMMIT",
        help="our own extender as of this commit gets as many pods, and the bounds over it are judged; not with --tls",
    )
    add("--api-port", type=port, default=0, metavar="PORT", help="of the simulated API server (default: a free one)")
    add(
        "--workers",
        type=seed,
        default=0,
        metavar="N",
        help="Locust processes beside a master (default: 0, one process alone)",
    )
    add(
        "--web-port",
        type=port,
        default=0,
        metavar="PORT",
        help="show Locust's pages at http://127.0.0.1:PORT meanwhile",
    )
    add(
        "--bounds",
        type=Path,
        default=_BOUNDS,
        metavar="FILE",
        help="what a run must keep, and of which extenders (to: gpushare, others, all, or a name) (default: load/bounds.yaml)",
    )
    add("--seed", type=seed, default=1, metavar="N", help="of the pods that come (default: %(default)s)")


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
