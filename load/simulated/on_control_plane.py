"""A simulated cluster on a real etcd and kube-apiserver: its nodes are only objects.

In the place of kubelets kwok lets pods run that are bound, and lets those go that are deleted.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple

from clusters.api.api_client import ApiClient
from clusters.api.readiness import says_ready
from clusters.api.resources import NODES
from clusters.api.waiting import eventually, for_each
from clusters.controlplane.binaries import KWOK, kwok, locate, minors
from clusters.controlplane.build import ensure_modules
from clusters.controlplane.real_control_plane import RealControlPlane
from clusters.processes.commands import Progress
from clusters.processes.program import Program
from clusters.processes.scratch import free_port
from clusters.simulated_node import environment_of_programs
from load.simulated.simulated_objects import needed_by_pods, node_document, pod_document
from load.simulated.simulated_world import World

_STAGES: Final = Path(__file__).with_name("kwok_stages.yaml")
# The phase of a node that kwok knows, by the stages.
_NODE_PHASE: Final = "Running"
# Until kwok has reported each of thousands of nodes as ready: against hangs only.
_KNOWN_SECONDS: Final = 600.0
# How many objects are created together.
AT_ONCE: Final = 32


class KwokCluster(NamedTuple):
    """The control plane, a client of it, and kwok if it is at work there."""

    plane: RealControlPlane
    api: ApiClient
    kwok: Program | None


async def bring_up(
    world: World, folder: Path, stack: AsyncExitStack, progress: Progress, *, with_kwok: bool
) -> KwokCluster:
    """All of the world, and pods that are bound run; logs and the kubeconfig are in the folder. It ends with the stack.

    Raises ApiError, ClusterError, NotReachedError.
    """
    binaries, environment = locate(minors()[0], os.environ), environment_of_programs(os.environ)
    binary = None
    if with_kwok:
        progress.text = "looking for kwok"
        # In a thread: Go builds it once, in minutes, and Ctrl-C must work.
        binary = (await asyncio.to_thread(ensure_modules, [kwok()], os.environ, sys.stderr))[KWOK]
    progress.text = "starting a control plane"
    plane = RealControlPlane(binaries, folder, environment)
    stack.push_async_callback(plane.stop)
    await plane.start(controllers=False)
    api = await stack.enter_async_context(ApiClient.from_kubeconfig(plane.kubeconfig))
    progress.text = "creating nodes"
    await _create(api, map(node_document, world.nodes), len(world.nodes), progress)
    program = None
    if binary is not None:
        progress.text = "starting kwok"
        program = await _start_kwok(binary, plane.kubeconfig, environment, folder, stack)
        # kwok passes over pods that it hears of before their node, and reads them again from what may be the API server's old list.
        await eventually(lambda: _unknown(api), lambda count: not count, "kwok knows all nodes", seconds=_KNOWN_SECONDS)
    progress.text = "creating pods"
    for item in needed_by_pods():
        await api.create(item)
    await _create(api, map(pod_document, world.running), len(world.running), progress)
    return KwokCluster(plane, api, program)


async def _start_kwok(
    binary: Path, kubeconfig: Path, environment: Mapping[str, str], folder: Path, stack: AsyncExitStack
) -> Program:
    port = free_port()
    argv = [str(binary), "--kubeconfig", str(kubeconfig), "--config", str(_STAGES), "--manage-all-nodes=true"]
    # No program here reads the Leases of nodes.
    argv += ["--node-lease-duration-seconds=0", f"--server-address=127.0.0.1:{port}"]
    program = Program(KWOK, argv, environment, folder / f"{KWOK}.log")
    stack.push_async_callback(program.stop)
    await program.launch(lambda: says_ready(f"http://127.0.0.1:{port}/healthz"))
    return program


async def _create(api: ApiClient, items: Iterable[dict[str, Any]], total: int, progress: Progress) -> None:
    done = 0

    async def create(item: dict[str, Any]) -> None:
        nonlocal done
        await api.create(item)
        done += 1
        progress.detail = f"{done} of {total}"

    await for_each(create, items, AT_ONCE)
    progress.detail = ""


async def _unknown(api: ApiClient) -> int:
    """How many nodes kwok has not reported yet."""
    return sum(node["status"].get("phase") != _NODE_PHASE for node in await api.list(NODES))
