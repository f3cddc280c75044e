"""The measures of a run, from its flags. Pure."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from load.load_commands import add_output
from load.simulated.simulated_world import CARD_UNITS, CARDS, FEWEST_PODS, FITS, MOST_PODS

CONCURRENCIES: Final = (1, 8, 64)
PODS_A_NODE: Final = 10
SEED: Final = 1
# Nodes of a full run, and of a quick one.
_NODES: Final = ((1000, 5000, 15_000), (1000, 5000))
_QUESTIONS: Final = (2000, 1000)
_BINDS: Final = (1000, 300)
# Names in a short question; a long one has all.
_NAMES: Final = 500
# Watch events a second if it is not quiet.
_EVENTS: Final = 500.0
# In a quick run a question of more names than this is asked less often: it takes long, and p99.9 is left to the full run.
_LONG_NAMES: Final = 1000
_LONG_SHARE: Final = 4
_EPILOG: Final = """Exit codes: 0 measured, and no target is missed; 1 something could not be measured; 2 wrong flags; 99 a target
is missed. All is on loopback, and nothing is left behind but the output folder. Quote ratios: absolute times are this machine's."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One measure of filter: a number of a world's nodes, of which all, half or none fit, beside events at a rate.

    If it is ``with_tls`` the extender is asked over TLS too, in the same run. The asker works for ``pause_ms`` before each
    question.
    """

    nodes: int
    names: int
    fit: str
    events: float
    with_tls: bool
    pause_ms: float


@dataclass(frozen=True, slots=True)
class Plan:
    """The worlds of a run, by ``nodes``; how often each server is asked in each cell, and how many pods it binds.

    A device plugin is watched for ``rest_seconds`` while nothing happens.
    """

    nodes: tuple[int, ...]
    questions: int
    binds: int
    pause_ms: float
    quick: bool
    output: Path
    rest_seconds: float = 20.0

    def questions_of(self, cell: Cell) -> int:
        """How often each server is asked."""
        is_long = self.quick and cell.names > _LONG_NAMES
        return max(self.questions // _LONG_SHARE, 1) if is_long else self.questions

    def cells(self, nodes: int, *, with_tls: bool) -> list[Cell]:
        """The measures in one world.

        A quick run asks half-fit questions in all ways, but over TLS only in the largest world; the others while it is quiet
        and plain. Quiet, plain and half-fit ones come without a pause, too, to show the effect of the pause on a figure.
        """
        if self.quick and with_tls and nodes != max(self.nodes):
            return []
        return [
            Cell(nodes, names, fit, events, with_tls, pause)
            for names in sorted({min(_NAMES, nodes), nodes})
            for fit in FITS
            for events in (0.0, _EVENTS)
            for pause in sorted({0.0, self.pause_ms}, reverse=True)
            if not self.quick or fit == "half" or (not events and not with_tls)
            if pause == self.pause_ms or (fit == "half" and not events and not with_tls)
        ]


def read(argv: Sequence[str] | None) -> Plan:
    """The plan of these flags; ends the program with code 2 if they make no sense."""
    parser = argparse.ArgumentParser(
        prog="python -m load.bench",
        description="Measures the extender beside a C server that does nothing, in one run and asked in turn: /filter, "
        "binds, the first sync; then the device plugin with a long list. Worlds are simulated: "
        f"nodes of {CARDS} cards of {CARD_UNITS} units, {FEWEST_PODS} to {MOST_PODS} pods each.",
        epilog=_EPILOG,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--quick", action="store_true", help="a run of about two minutes: no 15,000 nodes, fewer questions"
    )
    parser.add_argument(
        "--pause-ms",
        type=_milliseconds,
        default=1.0,
        metavar="MS",
        help="work of the asker's own before each question, in milliseconds: a scheduler has some, and servers fall asleep "
        "meanwhile; 0: none (default: %(default)g)",
    )
    add_output(parser, "bench-results")
    flags = parser.parse_args(argv)
    kind = int(flags.quick)
    return Plan(nodes=_NODES[kind], questions=_QUESTIONS[kind], binds=_BINDS[kind], **vars(flags))


def _milliseconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of milliseconds from 0 to 1000")
    return value
