"""``python -m e2e``: what an admin runs on an existing cluster. ``observe`` looks, and touches nothing."""

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

from clusters.api.api_client import ApiClient
from clusters.api.connection import Connection
from e2e.site.observe import Observation, ObserveError, as_json, summary
from e2e.site.report import report_verbs

_FAILED: Final = 1
_FINDINGS: Final = 3


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0 without findings, 3 with findings, 1 if the cluster could not be looked at, 2 for a wrong call."""
    parser = _parser()
    arguments = parser.parse_args(argv)
    if arguments.verb == "observe" and arguments.every < 1:
        parser.error("--every is 1s or more: each look asks the API server")
    try:
        if "run" in arguments:
            return int(arguments.run(arguments))
        return asyncio.run(_observe(arguments))
    except (ObserveError, OSError, ValueError) as error:
        print(f"{arguments.verb}: {error}", file=sys.stderr)  # noqa: T201  # a command's error
        return _FAILED


async def _observe(arguments: argparse.Namespace) -> int:
    """Until the time is over, or Ctrl-C, or SIGTERM."""
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    connection = Connection.from_kubeconfig(arguments.kubeconfig, arguments.context)
    is_json = arguments.output == "json"
    async with ApiClient(connection) as api:
        observation = Observation(api, arguments.every, _error if is_json else _say)
        outcome = await observation.run(connection.url, arguments.length, ended)
    _say(as_json(outcome) if is_json else summary(outcome))
    return _FINDINGS if outcome.findings else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m e2e", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    report_verbs.add_verbs(verbs)
    text = "report each invariant of sharing that a cluster breaks; nothing is created or changed"
    observe = verbs.add_parser("observe", help=text, description=text, epilog=main.__doc__)
    observe.add_argument(
        "--kubeconfig", type=Path, default=_default_kubeconfig(), metavar="FILE", help="(default: %(default)s)"
    )
    observe.add_argument(
        "--context", default="", metavar="NAME", help="context of the kubeconfig (default: the current one)"
    )
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
    observe.add_argument("-o", "--output", default="text", choices=("text", "json"), help="(default: %(default)s)")
    return parser


def seconds_of(text: str) -> float:
    """A length of time, in seconds, written as kubectl's flags are. Raises ValueError."""
    found = re.fullmatch(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?", text)
    if not text or found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no length of time; write 90s, 10m or 1h30m")
    hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return float(hours * 3600 + minutes * 60 + seconds)


def _default_kubeconfig() -> Path:
    """As kubectl has it; of several files in $KUBECONFIG the first."""
    return Path(os.environ.get("KUBECONFIG", "").split(os.pathsep)[0] or Path.home() / ".kube" / "config")


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201  # a command's output


def _error(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201  # progress beside a document on standard output


if __name__ == "__main__":
    sys.exit(main())
