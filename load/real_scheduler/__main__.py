"""Pods a second that the real kube-scheduler binds, with the extender and without it, in turn, on one control plane.

``python -m load.real_scheduler``: etcd, kube-apiserver and kube-scheduler are real; nodes are Node objects and nothing more, so
nothing starts pods and no controller is at work. All pods are there before the scheduler is; what is timed is from its first
binding to its last. Its limits on questions to the API server are raised far beyond what it can use. Without the extender the
scheduler itself counts the units of a node, which is the least work there is. With an extender in C that agrees to
every node it still does, and asks: more than that no extender reaches on this machine.

With ``--kwok`` pods run once they are bound, and with ``--rate`` they come while the scheduler is at work. With ``--room`` other
pods leave three units of each card on most nodes: together enough for a pod, and on no card.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Final

from clusters.processes.commands import Progress
from clusters.processes.scratch import scratch_folder
from load.bench.bench_servers import Bed, c_compiler
from load.load_commands import count, exit_code, seed
from load.load_reports import write
from load.real_scheduler import scheduler_figures
from load.real_scheduler.measured_control_plane import MeasuredControlPlane, bring_up
from load.real_scheduler.scheduler_figures import AGREES, CARDS, KINDS, MIXES, UNITS, WITH, WITHOUT, Turn, Workload
from load.simulated.simulated_objects import Node, Pod, World

_ALL: Final = 100
# The units that other pods leave on a card.
_LEFT: Final = 3
_EPILOG: Final = """Exit codes: 0 measured; 1 something could not be measured; 2 wrong flags; 99 with --check, if gpushare reaches
less than 65 % of what the scheduler does alone, less than 80 % of what an extender that agrees reaches, or needs more than 1.25
times the least number of nodes. All is on loopback, and nothing is left behind but the output."""


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code; ``--help`` lists them."""
    parser = _parser()
    flags = parser.parse_args(argv)
    if left_out := {WITHOUT, WITH}.difference(flags.kinds):
        parser.error(f"--kinds leaves out {left_out.pop()!r}: the result is its share of the other")
    return exit_code("real-scheduler", lambda: _run(flags))


def _run(flags: argparse.Namespace) -> int:
    turns = asyncio.run(_measure(flags))
    share = scheduler_figures.share(turns)
    work = _work(flags)
    setting = f"{flags.pods} {flags.mix} pods on {flags.nodes} nodes{' of kwok' if flags.kwok else ''}"
    setting += f", {flags.rate} a second" if flags.rate else ""
    setting += f", {flags.room} % of which have room" if flags.room < _ALL else ""
    print(scheduler_figures.text(turns, setting, work))
    if flags.output:
        order = {"nodes": flags.nodes, "pods": flags.pods, "rate": flags.rate, "kwok": flags.kwok}
        order |= {"mix": flags.mix, "room": flags.room, "percentage": flags.percentage}
        write(flags.output, {**order, "share": share, "turns": [asdict(turn) for turn in turns]})
    missed = scheduler_figures.missed(turns, work.least_nodes) if flags.check else []
    print("".join(f"missed: {one}\n" for one in missed), end="")
    return 99 if missed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m load.real_scheduler", description=__doc__, epilog=_EPILOG)
    add = parser.add_argument
    add("--nodes", type=count, default=1000, help="Node objects (default: %(default)s)")
    add("--pods", type=_several, default=2000, help="pods of each turn (default: %(default)s)")
    add("--turns", type=count, default=3, help="turns of each kind, in turn (default: %(default)s)")
    add("--rate", type=seed, default=0, help="pods a second that come (default: 0, all are there before)")
    add("--mix", choices=MIXES, default="small", help=f"units of the pods, in turn: {MIXES} (default: %(default)s)")
    add("--room", type=count, default=_ALL, help="percentage of nodes with room for a pod (default: all)")
    add("--kinds", nargs="+", choices=KINDS, default=KINDS, metavar="KIND", help=f"of {KINDS} (default: all)")
    add("--percentage", type=seed, default=20, help="percentageOfNodesToScore with gpushare (default: %(default)s)")
    add("--kwok", action="store_true", help="kwok plays the kubelets: pods that are bound run (built by Go, once)")
    add("--output", "-o", type=Path, help="file for all figures as JSON")
    add("--check", action="store_true", help="exit with 99 when less is reached than is promised")
    return parser


def _several(text: str) -> int:
    """A time between two bindings takes two."""
    found = count(text)
    if found < 2:
        raise argparse.ArgumentTypeError("there must be 2 pods at least")
    return found


async def _measure(flags: argparse.Namespace) -> list[Turn]:
    # As the original's plugin publishes them.
    nodes = tuple(Node(f"node-{number:05}", CARDS, UNITS) for number in range(flags.nodes))
    world = World(nodes, tuple(_booked(nodes, flags.room)))
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(scratch_folder())
        progress = stack.enter_context(Progress("real-scheduler", "starting a control plane", sys.stderr))
        site = await bring_up(world, folder, stack, progress, with_kwok=flags.kwok)
        stage = MeasuredControlPlane(site, Bed.of(folder, stack), progress, _work(flags), flags.percentage)
        kinds = [kind for kind in KINDS if kind in flags.kinds and (kind != AGREES or c_compiler() is not None)]
        return [await stage.turn(kind) for _ in range(flags.turns) for kind in kinds]


def _work(flags: argparse.Namespace) -> Workload:
    return Workload(flags.pods, flags.rate, flags.mix)


def _booked(nodes: Sequence[Node], room: int) -> Iterator[Pod]:
    """Pods that leave three units of each card on all nodes but this percentage, which are spread evenly."""
    for number, node in enumerate(nodes):
        if (number + 1) * room // _ALL == number * room // _ALL:
            for card in range(node.cards):
                yield Pod(f"booked-{number}-{card}", UNITS - _LEFT, node.name, card, UNITS)


if __name__ == "__main__":
    sys.exit(main())
