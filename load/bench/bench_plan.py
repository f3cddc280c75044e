"""The measures of a run, from its flags. Pure."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from load.load_flags import count, milliseconds
from load.simulated.measured_world import CARD_UNITS, CARDS, FEWEST_PODS, FITS, MOST_PODS

CONCURRENCIES: Final = (1, 8, 64)
# Nodes of a full run, and of a quick one.
_NODES: Final = ((1000, 5000, 15_000), (1000, 5000))
_QUESTIONS: Final = (2000, 1000)
# In a quick run a question of more names than this is asked less often: it takes long, and p99.9 is left to the full run.
_LONG_NAMES: Final = 1000
_LONG_SHARE: Final = 4
_BINDS: Final = (1000, 300)
_EPILOG: Final = """Exit codes: 0 measured; 1 something could not be measured; 2 wrong flags; 99 a target is missed (with
--check-targets). All is on loopback, and nothing is left behind but the output folder. Quote ratios: absolute times are
this machine's."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One measure of filter: a number of a world's nodes, of which all, half or none fit, beside events at a rate.

    With ``tls`` the extender is asked over TLS too, in the same run. The asker works for ``pause_ms`` before each question.
    """

    nodes: int
    names: int
    fit: str
    events: float
    tls: bool
    pause_ms: float


@dataclass(frozen=True, slots=True)
class Plan:
    """The worlds of a run, by ``nodes``, with this many pods a node on average."""

    nodes: tuple[int, ...]
    names: int
    questions: int
    events: float
    pause_ms: float
    pods_a_node: int
    binds: int
    sync_nodes: int
    sync_pods: int
    seed: int
    tls: bool
    quick: bool
    output: Path
    check_targets: bool

    @property
    def bind_nodes(self) -> int:
        """Are binds measured in the world of this many nodes? In the one that has 5,000, or else in the largest."""
        return 5000 if 5000 in self.nodes else max(self.nodes)

    @property
    def most_binds(self) -> int:
        """At each concurrency on each server: every roomy node has 4 units free on a card, and each bind takes one."""
        return self.bind_nodes // 2 * 4 // (len(CONCURRENCIES) * 2)

    def questions_of(self, cell: Cell) -> int:
        """How often each server is asked."""
        is_long = self.quick and cell.names > _LONG_NAMES
        return max(self.questions // _LONG_SHARE, 1) if is_long else self.questions

    @property
    def syncs_alone(self) -> bool:
        """Is the first sync measured in a world of its own? Not if the same world is started anyway."""
        return (self.sync_nodes, self.sync_pods) not in ((nodes, nodes * self.pods_a_node) for nodes in self.nodes)

    def cells(self, nodes: int, *, tls: bool) -> list[Cell]:
        """The measures in one world.

        A quick run asks half-fit questions in all ways, but over TLS only in the largest world; the others while it is quiet
        and plain. Quiet, plain and half-fit ones come without a pause, too, to show the effect of the pause on a figure.
        """
        if self.quick and tls and nodes != max(self.nodes):
            return []
        counts = sorted({min(self.names, nodes), nodes})
        return [
            Cell(nodes, names, fit, events, tls, pause)
            for names in counts
            for fit in FITS
            for events in (0.0, self.events)
            for pause in sorted({0.0, self.pause_ms}, reverse=True)
            if not self.quick or fit == "half" or (not events and not tls)
            if pause == self.pause_ms or (fit == "half" and not events and not tls)
        ]


def read(argv: Sequence[str] | None) -> Plan:
    """The plan of these flags; ends the program with code 2 if they make no sense."""
    parser = _parser()
    flags = parser.parse_args(argv)
    quick = bool(flags.quick)
    nodes = tuple(sorted(set(flags.nodes or _NODES[quick])))
    pods_a_node = flags.pods_per_node
    if not FEWEST_PODS <= pods_a_node <= MOST_PODS:
        parser.error(f"--pods-per-node is {pods_a_node}, not {FEWEST_PODS} to {MOST_PODS}")
    if not FEWEST_PODS * flags.sync_nodes <= flags.sync_pods <= MOST_PODS * flags.sync_nodes:
        parser.error(f"--sync-pods must be {FEWEST_PODS} to {MOST_PODS} for each of --sync-nodes")
    plan = Plan(
        nodes=nodes,
        names=flags.names,
        questions=flags.questions or _QUESTIONS[quick],
        events=flags.events,
        pause_ms=flags.pause_ms,
        pods_a_node=pods_a_node,
        binds=_BINDS[quick] if flags.binds is None else flags.binds,
        sync_nodes=flags.sync_nodes,
        sync_pods=flags.sync_pods,
        seed=flags.seed,
        tls=not flags.no_tls,
        quick=quick,
        output=flags.output,
        check_targets=flags.check_targets,
    )
    if flags.binds is None:
        return replace(plan, binds=min(plan.binds, plan.most_binds))
    if plan.binds > plan.most_binds:
        parser.error(f"--binds is {plan.binds}, but {plan.bind_nodes} nodes have room for {plan.most_binds} for sure")
    return plan


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m load.bench",
        description="Measures the extender beside a C server that does nothing, in one run and asked in turn: /filter, binds, the\n"
        f"first sync. Worlds are simulated: nodes of {CARDS} cards of {CARD_UNITS} units, {FEWEST_PODS} to {MOST_PODS} pods each.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--quick", action="store_true", help="a small run of a minute or two: no 15,000 nodes, fewer questions")
    add("--nodes", type=_counts, help=f"sizes of the worlds, with commas (default: {_list(0)}; quick: {_list(1)})")
    add("--names", type=count, default=500, help="names in a short question; a long one has all (default: %(default)s)")
    add("--questions", type=count, help="questions to each server in each cell (default: 2000; quick: 1000)")
    add("--events", type=count, default=500, help="watch events a second where it is not quiet (default: %(default)s)")
    add(
        "--pause-ms",
        type=milliseconds,
        default=1.0,
        metavar="MS",
        help="work of the asker's own before each question, in milliseconds: a scheduler has some, and servers fall asleep "
        "meanwhile; 0: none (default: %(default)g)",
    )
    add("--pods-per-node", type=count, default=10, help="on average; each node has 8 to 32 (default: %(default)s)")
    add(
        "--binds",
        type=_count_or_none,
        help="binds at each concurrency; 0: none (default: 1000; quick: 300; at most what there is room for)",
    )
    add("--sync-nodes", type=count, default=5000, help="nodes of the first sync (default: %(default)s)")
    add("--sync-pods", type=count, default=50_000, help="pods of the first sync (default: %(default)s)")
    add("--no-tls", action="store_true", help="do not measure over TLS")
    add("--seed", type=int, default=1, help="of worlds and orders (default: %(default)s)")
    add(
        "--output",
        "-o",
        type=Path,
        default=Path("bench-results"),
        help="folder for bench.json (default: %(default)s)",
    )
    add("--check-targets", action="store_true", help="exit with 99 when a target is missed")
    return parser


def _list(at: int) -> str:
    return ",".join(map(str, _NODES[at]))


def _count_or_none(text: str) -> int:
    return 0 if text == "0" else count(text)


def _counts(text: str) -> tuple[int, ...]:
    return tuple(map(count, text.split(",")))
