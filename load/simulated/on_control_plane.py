"""A simulated cluster on a real etcd and kube-apiserver: its nodes are only objects, and kwok reports pods as running."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

from clusters.api.api_client import ApiClient
from clusters.api.resources import NODES
from clusters.api.waiting import eventually, for_each
from clusters.controlplane.binaries import locate, minors
from clusters.controlplane.real_control_plane import RealControlPlane
from clusters.processes.progress import Progress
from clusters.simulated_node import environment_of_programs
from load.simulated import kwok
from load.simulated.documents import needed_by_pods, node_document, pod_document
from load.simulated.simulated_world import World

# Until kwok has reported each of thousands of nodes as ready: against hangs only.
_KNOWN_SECONDS: Final = 600.0
# How many objects are created together.
_AT_ONCE: Final = 32


async def bring_up(
    world: World, folder: Path, stack: AsyncExitStack, progress: Progress
) -> tuple[RealControlPlane, ApiClient]:
    """All of the world, and pods that are bound run; logs and the kubeconfig are in the folder. It ends with the stack.

    Raises ApiError, ClusterError, NotReachedError.
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
    progress.text = "creating nodes"
    await _create(api, map(node_document, world.nodes), len(world.nodes), progress)
    progress.text = "starting kwok"
    program = await kwok.start(binary, plane.kubeconfig, environment, folder)
    stack.push_async_callback(program.stop)
    # kwok passes over pods that it hears of before their node, and reads them again from what may be the API server's old list.
    await eventually(lambda: _unknown(api), lambda count: not count, "kwok knows all nodes", seconds=_KNOWN_SECONDS)
    progress.text = "creating pods"
    for item in needed_by_pods():
        await api.create(item)
    await _create(api, map(pod_document, world.running), len(world.running), progress)
    return plane, api


async def _create(api: ApiClient, items: Iterable[dict[str, Any]], total: int, progress: Progress) -> None:
    done = 0

    async def create(item: dict[str, Any]) -> None:
        nonlocal done
        await api.create(item)
        done += 1
        progress.detail = f"{done} of {total}"

    await for_each(create, items, _AT_ONCE)
    progress.detail = ""


async def _unknown(api: ApiClient) -> int:
    """How many nodes kwok has not reported yet."""
    return sum(node["status"].get("phase") != kwok.NODE_PHASE for node in await api.list(NODES))
