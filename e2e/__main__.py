"""``python -m e2e``: what an admin runs on an existing cluster. ``observe`` and ``preflight`` look, and touch nothing."""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from clusters.api.api_client import ApiClient
from clusters.api.connection import Connection
from e2e.site.machine_preflight import machine_preflight
from e2e.site.observe import Observation, ObserveError, as_json, summary
from e2e.site.preflight_lines import as_text, is_wrong
from e2e.site.preflight_reading import PreflightError, preflight

_FAILED: Final = 1
_FINDINGS: Final = 3
_OBSERVE: Final = "report each invariant of sharing that a cluster breaks; nothing is created or changed"
_PREFLIGHT: Final = (
    "look at a cluster or a machine before an installation or a validation; nothing is created or changed"
)
_CODES: Final = (
    "Exit code 0 without findings, 3 with findings, 1 if the cluster could not be looked at, 2 for a wrong call. "
    "What is unknown to preflight is no finding."
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the verb; the result is the exit code."""
    parser = _parser()
    arguments = parser.parse_args(argv)
    if arguments.verb == "observe" and arguments.every < 1:
        parser.error("--every is 1s or more: each look asks the API server")
    if arguments.verb == "preflight" and arguments.root is not None and not arguments.machine:
        parser.error("--root is for --machine")
    verb = {"observe": _observe, "preflight": _preflight}[arguments.verb]
    try:
        return asyncio.run(verb(arguments))
    except (ObserveError, PreflightError, OSError, ValueError) as error:
        print(f"{arguments.verb}: {error}", file=sys.stderr)  # noqa: T201  # a command's error
        return _FAILED


async def _observe(arguments: argparse.Namespace) -> int:
    """Until the time is over, or Ctrl-C, or SIGTERM."""
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    connection = _connection(arguments)
    is_json = arguments.output == "json"
    async with ApiClient(connection) as api:
        observation = Observation(api, arguments.every, _error if is_json else _say)
        outcome = await observation.run(connection.url, arguments.length, ended)
    _say(as_json(outcome) if is_json else summary(outcome))
    return _FINDINGS if outcome.findings else 0


async def _preflight(arguments: argparse.Namespace) -> int:
    """Judge the machine if the call asks for it, otherwise the cluster."""
    if arguments.machine:
        lines = machine_preflight(arguments.root or Path("/"))
    else:
        async with ApiClient(_connection(arguments)) as api:
            lines = await preflight(api)
    is_json = arguments.output == "json"
    _say(msgspec.json.format(msgspec.json.encode({"lines": lines}), indent=2).decode() if is_json else as_text(lines))
    return _FINDINGS if is_wrong(lines) else 0


def _connection(arguments: argparse.Namespace) -> Connection:
    named = [arguments.kubeconfig] if arguments.kubeconfig else _kubeconfigs()
    return Connection.from_kubeconfig(named, arguments.context)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m e2e", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    observe = verbs.add_parser("observe", help=_OBSERVE, description=_OBSERVE, epilog=_CODES)
    _add_cluster(observe)
    observe.add_argument(
        "--for",
        dest="length",
        type=seconds_of,
        default=0.0,
        metavar="TIME",
        help="how long, as 90s, 10m or 1h30m (default: two looks)",
    )
    observe.add_argument(
        "--every", type=seconds_of, default=10.0, metavar="TIME", help="between two looks, 1s or more (default: 10s)"
    )
    before = verbs.add_parser("preflight", help=_PREFLIGHT, description=_PREFLIGHT, epilog=_CODES)
    _add_cluster(before)
    before.add_argument("--machine", action="store_true", help="look at this machine, without a cluster")
    before.add_argument("--root", type=Path, metavar="DIR", help="where the files of the machine are (default: /)")
    return parser


def _add_cluster(verb: argparse.ArgumentParser) -> None:
    """Add the options of all verbs: which cluster, and the form of the output."""
    verb.add_argument("--kubeconfig", type=Path, metavar="FILE", help="(default: $KUBECONFIG, or ~/.kube/config)")
    verb.add_argument(
        "--context", default="", metavar="NAME", help="context of the kubeconfig (default: the current one)"
    )
    verb.add_argument("-o", "--output", default="text", choices=("text", "json"), help="(default: %(default)s)")


def seconds_of(text: str) -> float:
    """A length of time, in seconds, written as kubectl's flags are. Raises ValueError."""
    found = re.fullmatch(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?", text)
    if not text or found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no length of time; write 90s, 10m or 1h30m")
    hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return float(hours * 3600 + minutes * 60 + seconds)


def _kubeconfigs() -> list[Path]:
    """As kubectl has them: those of $KUBECONFIG, or the one of this user."""
    named = [Path(name) for name in os.environ.get("KUBECONFIG", "").split(os.pathsep) if name]
    return named or [Path.home() / ".kube" / "config"]


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201  # a command's output


def _error(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201  # progress beside a document on standard output


if __name__ == "__main__":
    sys.exit(main())
