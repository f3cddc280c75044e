"""``python -m e2e observe`` and ``preflight``: they look at a cluster or a machine, and change nothing."""

from __future__ import annotations

import argparse
import asyncio
import re
import signal
import sys
from functools import partial
from typing import Final

import msgspec

from clusters.api.api_client import ApiClient
from e2e.site.kubeconfig_choice import OPTIONS, connection
from e2e.site.machine_preflight import machine_preflight
from e2e.site.observe import Observation, as_json, summary
from e2e.site.preflight import preflight
from e2e.site.preflight_lines import as_text, is_wrong

_FINDINGS: Final = 3
_say: Final = partial(print, flush=True)
# Progress beside a document on standard output.
_error: Final = partial(print, file=sys.stderr, flush=True)
_OBSERVE: Final = "report each invariant of sharing that a cluster breaks; nothing is created or changed"
_PREFLIGHT: Final = (
    "look at a cluster or a machine before an installation or a validation; nothing is created or changed"
)
_CODES: Final = (
    "Exit code 0 without findings, 3 with findings, 1 if the cluster could not be looked at, 2 for a wrong call. "
    "A thing that is unknown to preflight is no finding."
)


def add_verbs(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Each sets ``run``, a function of the arguments that returns the exit code and may raise SiteError, OSError and ValueError."""
    observe = verbs.add_parser("observe", help=_OBSERVE, description=_OBSERVE, epilog=_CODES)
    _add_common(observe)
    observe.add_argument(
        "--for",
        dest="length",
        type=seconds_of,
        default=0.0,
        metavar="TIME",
        help="how long, as 90s, 10m or 1h30m (default: two looks)",
    )
    observe.add_argument(
        "--every", type=_interval, default=10.0, metavar="TIME", help="between two looks, 1s or more (default: 10s)"
    )
    observe.set_defaults(run=lambda arguments: asyncio.run(_observe(arguments)))
    before = verbs.add_parser("preflight", help=_PREFLIGHT, description=_PREFLIGHT, epilog=_CODES)
    _add_common(before)
    before.add_argument("--machine", action="store_true", help="look at this machine, without a cluster")
    before.set_defaults(run=lambda arguments: asyncio.run(_preflight(arguments)))


def _add_common(verb: argparse.ArgumentParser) -> None:
    for name, settings in OPTIONS.items():
        verb.add_argument(name, **settings)
    verb.add_argument("-o", "--output", default="text", choices=("text", "json"), help="(default: %(default)s)")


async def _observe(arguments: argparse.Namespace) -> int:
    """Until the time is over, or Ctrl-C, or SIGTERM."""
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    is_json = arguments.output == "json"
    async with ApiClient(connection(arguments)) as api:
        observation = Observation(api, arguments.every, _error if is_json else _say)
        outcome = await observation.run(arguments.length, ended)
    _say(as_json(outcome) if is_json else summary(outcome))
    return _FINDINGS if outcome.findings else 0


async def _preflight(arguments: argparse.Namespace) -> int:
    """Judge the machine if the call asks for it, otherwise the cluster."""
    if arguments.machine:
        lines = machine_preflight()
    else:
        async with ApiClient(connection(arguments)) as api:
            lines = await preflight(api)
    is_json = arguments.output == "json"
    _say(msgspec.json.format(msgspec.json.encode({"lines": lines}), indent=2).decode() if is_json else as_text(lines))
    return _FINDINGS if is_wrong(lines) else 0


def seconds_of(text: str) -> float:
    """A length of time, in seconds, written as kubectl's flags are. Raises ArgumentTypeError."""
    found = re.fullmatch(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?", text)
    if not text or found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no length of time; write 90s, 10m or 1h30m")
    hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return float(hours * 3600 + minutes * 60 + seconds)


def _interval(text: str) -> float:
    seconds = seconds_of(text)
    if seconds < 1:
        raise argparse.ArgumentTypeError("1s or more: each look asks the API server")
    return seconds
