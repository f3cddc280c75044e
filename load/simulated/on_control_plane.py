"""A simulated cluster on a real etcd and kube-apiserver: its nodes are only objects, and kwok reports pods as running."""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

from clusters.api_client import ApiClient
from clusters.controlplane.binaries import locate, minors
from clusters.controlplane.real_control_plane import RealControlPlane
from clusters.progress import Progress
from clusters.resources import NODES
from clusters.simulated_node import environment_of_programs
from clusters.waiting import eventually
from load.simulated import kwok
from load.simulated.filling import create_nodes, create_pods
from load.simulated.simulated_world import World

# Until kwok has reported each of thousands of nodes as ready: against hangs only.
_KNOWN_SECONDS: Final = 600.0


async def bring_up(
    world: World, folder: Path, stack: AsyncExitStack, progress: Progress
) -> tuple[RealControlPlane, ApiClient]:
    """All of the world, and pods that are bound run; logs and the kubeconfig are in the folder. It ends with the stack.

    Raises ApiError, BuildError, ClusterError, MissingBinariesError, NotReachedError.
    """
    binaries = locate(minors()[0], os.environ)
    progress.text = "looking for kwok"
    # In a thread: a build takes minutes, and Ctrl-C must work.
    binary = await asyncio.to_thread(kwok.build, os.environ)
    progress.text = "starting a control plane"
    environment = environment_of_programs(os.environ)
    plane = RealControlPlane(binaries, folder, environment)
    stack.push_async_callback(plane.stop)
    await plane.start(controllers=False)
    api = await stack.enter_async_context(ApiClient.from_kubeconfig(plane.kubeconfig))
    await create_nodes(api, world, progress)
    progress.text = "starting kwok"
    program = await kwok.start(binary, plane.kubeconfig, environment, folder)
    stack.push_async_callback(program.stop)
    # kwok passes over pods that it hears of before their node, and reads them again from what may be the API server's old list.
    await eventually(lambda: _unknown(api), lambda count: not count, "kwok knows all nodes", seconds=_KNOWN_SECONDS)
    await create_pods(api, world, progress)
    return plane, api


async def _unknown(api: ApiClient) -> int:
    """How many nodes kwok has not reported yet."""
    return sum(node["status"].get("phase") != kwok.NODE_PHASE for node in await api.list(NODES))
