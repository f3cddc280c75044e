"""``python -m load soak``: pods come and go for long; memory, drift of the book and over-booked cards are what is judged."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from typing import Any, Final

from clusters.embedded.scheduling.window import feasible_nodes_to_find
from load.load_commands import add_cluster, add_output, count, exit_code
from load.load_reports import write
from load.play.load_plan import Plan
from load.play.play_running import Order
from load.play.run_command import has_locust, measure
from load.simulated.cluster_file import read
from load.soak import soak_on_control_plane
from load.soak.soak_promises import promises, text

SIMULATED, CONTROLPLANE = "simulated", "controlplane"
# Pods a second. Two cores are full with what real programs do for 40.
_RATES: Final = {SIMULATED: 40, CONTROLPLANE: 20}
# Watch events a second beside, if the API server is simulated.
_EVENTS: Final = 200
_EPILOG: Final = """Simulated: a simulated API server, and Locust plays kube-scheduler. Control plane (make control-plane
builds it): both are real, and kwok says that pods run. Cards are counted by what the API shows, and a pod ends for each that is
bound. Exit codes: 0 measured, and all is as promised; 1 something could not be measured, as memory in a run of minutes; 2 wrong
flags; 99 a promise is broken; 130 stopped."""


def add_to(commands: Any) -> None:
    """The command, among others."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "soak",
        help="pods come and go for half an hour: is memory flat, and the book right?",
        description="Pods come and as many end, for long, while the book is audited.",
        epilog=_EPILOG,
    )
    add = parser.add_argument
    add("--seconds", type=count, default=1800, metavar="N", help="how long pods come (default: %(default)s)")
    add(
        "--rate",
        type=count,
        metavar="N",
        help=f"pods a second (default: {_RATES[SIMULATED]}, on a control plane {_RATES[CONTROLPLANE]})",
    )
    add(
        "--provider",
        choices=(SIMULATED, CONTROLPLANE),
        default=SIMULATED,
        help="API server and scheduler (default: %(default)s)",
    )
    add_cluster(parser)
    add(
        "--audit-seconds",
        type=_audit_seconds,
        default=30,
        metavar="N",
        help="between two audits (default: %(default)s)",
    )
    add_output(parser, "load-results/soak")
    parser.set_defaults(run=run_command)


def run_command(flags: argparse.Namespace) -> int:
    """The exit code."""
    is_real = flags.provider == CONTROLPLANE
    flags.rate = flags.rate or _RATES[flags.provider]
    if not is_real and not has_locust():
        return 1
    soak = _on_control_plane if is_real else _simulated
    return exit_code("load", lambda: _tell(asyncio.run(soak(flags)), flags.output))


def _tell(run: dict[str, Any], folder: Path) -> int:
    """Print and keep what was found; the exit code."""
    found = promises(run)
    run["verdicts"] = [{"text": one.text(), "kept": bool(one.is_kept)} for one in found]
    path = folder / "load.json"
    write(path, run)
    print(text(run))
    print("\n".join(one.text() for one in found))
    print(f"\nwrote {path}")
    if any(one.is_kept is False for one in found):
        return 99
    return 0 if all(one.is_kept for one in found) else 1


def _audit_seconds(value: str) -> int:
    """Oftener than every ten seconds the extender refuses."""
    found = count(value)
    if found < 10:
        raise argparse.ArgumentTypeError(f"{value!r} is less than 10")
    return found


async def _simulated(flags: argparse.Namespace) -> dict[str, Any]:
    """Raises CannotMeasureError, ClusterError, ClusterFileError, OSError."""
    nodes = read(flags.cluster).nodes
    plan = Plan(
        cluster=str(flags.cluster.resolve()),
        window=feasible_nodes_to_find(nodes, 0),
        rate=flags.rate,
        seconds=flags.seconds,
        records=str(flags.output.resolve()),
    )
    run = await measure(Order(plan, _EVENTS, audit_seconds=flags.audit_seconds), flags.output)
    run["setting"] = (
        f"{nodes} simulated nodes, {flags.rate} pods/s for {flags.seconds} s, {_EVENTS} events/s, a simulated API server"
    )
    return run


async def _on_control_plane(flags: argparse.Namespace) -> dict[str, Any]:
    """Raises ApiError, ClusterError, ClusterFileError, NotReachedError, OSError."""
    flags.output.mkdir(parents=True, exist_ok=True)
    return await soak_on_control_plane.measure(flags)
