"""A simulated cluster onto a real API server, object by object."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from clusters.api_client import ApiClient
from clusters.progress import Progress
from clusters.waiting import for_each
from load.simulated.documents import needed_by_pods, node_document, pod_document
from load.simulated.simulated_world import World

# How many objects are created together.
_AT_ONCE: Final = 32


async def create_nodes(api: ApiClient, world: World, progress: Progress) -> None:
    """All nodes of the world. Raises ApiError."""
    progress.text = "creating nodes"
    await _create(api, map(node_document, world.nodes), len(world.nodes), progress)


async def create_pods(api: ApiClient, world: World, progress: Progress) -> None:
    """All that runs at first, and what pods need to be there. Raises ApiError."""
    progress.text = "creating pods"
    for item in needed_by_pods():
        await api.create(item)
    await _create(api, map(pod_document, world.running), len(world.running), progress)


async def _create(api: ApiClient, items: Iterable[dict[str, Any]], total: int, progress: Progress) -> None:
    done = 0

    async def create(item: dict[str, Any]) -> None:
        nonlocal done
        await api.create(item)
        done += 1
        progress.detail = f"{done} of {total}"

    await for_each(create, items, _AT_ONCE)
    progress.detail = ""
