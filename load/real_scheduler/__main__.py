"""Pods a second that the real kube-scheduler binds, with the extender and without it, in turn, on one control plane; and how many
the extender binds for a caller that orders many together.

``python -m load.real_scheduler``: etcd, kube-apiserver and kube-scheduler are real; nodes are Node objects and nothing more, so
nothing starts pods and no controller is at work. All pods are there before the scheduler is; what is timed is from its first
binding to its last. Its limits on questions to the API server are raised far beyond what it can use. Without the extender the
scheduler itself counts the units of a node, which is the least work there is. With an extender in C that agrees to
every node it still does, and asks: more than that no extender reaches on this machine.

With ``--kwok`` pods run once they are bound, and with ``--rate`` they come while the scheduler is at work.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Final

from clusters.api.api_client import ApiClient, ApiError
from clusters.api.waiting import NotReachedError
from clusters.controlplane.binaries import locate, minors
from clusters.controlplane.real_control_plane import RealControlPlane
from clusters.processes.progress import Progress
from clusters.processes.scratch import scratch_folder
from clusters.provider import ClusterError
from load.bench.bench_servers import CannotMeasureError
from load.compiled import CannotCompileError
from load.exit_code import exit_code
from load.load_flags import count, seed
from load.real_scheduler import scheduler_figures
from load.real_scheduler.real_scheduler_stage import Order, Stage
from load.real_scheduler.scheduler_figures import AGREES, BINDS, SHARE, WITH, WITHOUT, Turn
from load.real_scheduler.scheduler_programs import compile_agreeing
from load.simulated import kwok

_ERRORS: Final = (
    ApiError,
    ClusterError,
    CannotCompileError,
    CannotMeasureError,
    NotReachedError,
    OSError,
)
_EPILOG: Final = """Exit codes: 0 measured; 1 something could not be measured; 2 wrong flags; 99 with --check, when gpushare
reaches less than 85 % of what the scheduler does alone. All is on loopback, and nothing is left behind but the output."""


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code; ``--help`` lists them."""
    flags = _parser().parse_args(argv)
    return exit_code("real-scheduler", lambda: _run(flags), *_ERRORS)


def _run(flags: argparse.Namespace) -> int:
    turns = asyncio.run(_measure(flags))
    share = scheduler_figures.share(turns)
    print(scheduler_figures.text(turns, _setting(flags), flags.pods))
    if flags.output:
        order = {"nodes": flags.nodes, "pods": flags.pods, "rate": flags.rate, "kwok": flags.kwok}
        document = {**order, "share": share, "turns": [asdict(turn) for turn in turns]}
        flags.output.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return 99 if flags.check and share < SHARE else 0


def _setting(flags: argparse.Namespace) -> str:
    nodes = f"{flags.nodes} nodes{' of kwok' if flags.kwok else ''}"
    return f"{flags.pods} pods on {nodes}{f', {flags.rate} a second' if flags.rate else ''}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m load.real_scheduler", description=__doc__, epilog=_EPILOG)
    add = parser.add_argument
    add("--nodes", type=count, default=1000, help="Node objects (default: %(default)s)")
    add("--pods", type=_several, default=2000, help="pods of each turn (default: %(default)s)")
    add("--turns", type=count, default=3, help="turns of each kind, in turn (default: %(default)s)")
    add("--rate", type=seed, default=0, help="pods a second that come (default: 0, all are there before)")
    add("--kwok", action="store_true", help="kwok plays the kubelets: pods that are bound run (built by Go, once)")
    add("--kubernetes", default=minors()[0], choices=minors(), help="minor of the control plane (default: the newest)")
    add("--assets", type=Path, help="folder with ready programs of a control plane (as KUBEBUILDER_ASSETS)")
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
    environment = dict(os.environ)
    binaries = locate(flags.kubernetes, environment, flags.assets)
    kubelets = kwok.build(environment) if flags.kwok else None
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(scratch_folder())
        progress = stack.enter_context(Progress("real-scheduler", "starting a control plane", sys.stderr))
        control_plane = RealControlPlane(binaries, folder, environment)
        stack.push_async_callback(control_plane.stop)
        await control_plane.start(controllers=False)
        api = await stack.enter_async_context(ApiClient.from_kubeconfig(control_plane.kubeconfig))
        stage = Stage(control_plane, api, folder, progress, Order(flags.nodes, flags.pods, flags.rate))
        await stage.furnish()
        if kubelets is not None:
            await stage.start_kwok(kubelets, stack)
        stage.agreeing = await compile_agreeing(folder)
        ceiling = () if stage.agreeing is None else (AGREES,)
        kinds = (WITHOUT, *ceiling, WITH) if flags.rate else (WITHOUT, *ceiling, WITH, BINDS)
        return [await stage.turn(kind) for _ in range(flags.turns) for kind in kinds]


if __name__ == "__main__":
    sys.exit(main())
