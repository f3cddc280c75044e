"""The flags of ``python -m load run``, each checked as it is read."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Final

from load.bench.bench_questions import PREFIX
from load.load_commands import add_cluster, count, port, seed
from load.play.load_plan import SHAPES, TRACE, VERBS
from load.replay.trace import SAMPLE

_BOUNDS: Final = Path(__file__).parents[1] / "bounds.yaml"


def add_flags(parser: argparse.ArgumentParser) -> None:
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
