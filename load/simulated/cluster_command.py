"""``python -m load cluster``: a large simulated cluster on an API server that every local program may ask, until Ctrl-C."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import uuid
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import msgspec

from clusters.api.waiting import unless
from clusters.embedded.embedded_control_plane import EmbeddedControlPlane
from clusters.kubeconfig_copy import Copy
from clusters.processes.progress import Progress
from clusters.processes.scratch import scratch_folder
from load.simulated import on_control_plane
from load.simulated.cluster_file import build, read
from load.simulated.simulated_objects import kept
from load.simulated.simulated_world import World

_EPILOG: Final = """Nodes are objects without kubelets. On the embedded API server pods run because they are said to; on a real
control plane (make control-plane) kwok says so, which Go builds once, in minutes. Exit codes: 0 ended by Ctrl-C; 1 it could not be
brought up; 2 wrong flags."""


def add_to(commands: Any) -> None:
    """The command, among others."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "cluster",
        help="bring up a large simulated cluster and leave it up",
        description="Nodes and pods of a simulated cluster on an API server of their own, for any extender or tool.",
        epilog=_EPILOG,
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="such as clusters/simulated/load/nodes-1000.yaml")
    parser.add_argument(
        "--provider", choices=("embedded", "controlplane"), default="embedded", help="API server (default: embedded)"
    )
    parser.add_argument("--kubeconfig", type=Path, metavar="OUT", help="write a kubeconfig here as well")
    parser.set_defaults(name="cluster", run=lambda flags: asyncio.run(_up(flags)))


async def _up(flags: argparse.Namespace) -> int:
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    copy = Copy(flags.kubeconfig) if flags.kubeconfig is not None else None
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(scratch_folder())
        with Progress("cluster", f"{flags.file.name}: laying it out", sys.stderr) as progress:
            world = build(read(flags.file))
            bringing = _embedded if flags.provider == "embedded" else on_control_plane.bring_up
            if not await unless(ended, lambda: bringing(world, folder, stack, progress)):
                return 0
        kubeconfig = folder / "kubeconfig"
        print(f"{len(world.nodes)} nodes, {len(world.running)} pods: export KUBECONFIG={kubeconfig}", flush=True)
        if copy is not None:
            copy.put(kubeconfig)
            stack.callback(copy.remove)
        print("Ctrl-C ends it", flush=True)
        await ended.wait()
    return 0


async def _embedded(world: World, folder: Path, stack: AsyncExitStack, progress: Progress) -> None:
    """All objects in one step, as a restarted API server would find them; its kubeconfig is in the folder, too."""
    state = folder / "state.json"
    await asyncio.to_thread(lambda: state.write_bytes(msgspec.json.encode(kept(world, str(uuid.uuid4())))))
    progress.text = "starting the embedded API server"
    plane = EmbeddedControlPlane(folder, state=state)
    stack.push_async_callback(plane.stop)
    await plane.start(controllers=False)
