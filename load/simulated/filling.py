"""A simulated cluster onto a real API server, object by object."""

from __future__ import annotations

from typing import Any, Final

from clusters.api_client import ApiClient
from clusters.progress import Progress
from clusters.waiting import for_each
from load.simulated.documents import namespaced
from load.simulated.world import World

# How many objects are created at once.
_AT_ONCE: Final = 32


async def fill(api: ApiClient, world: World, progress: Progress) -> None:
    """All nodes and pods of the world. Raises ApiError."""
    progress.text = "creating nodes and pods"
    left, done, total = namespaced(world), 0, len(world.nodes) + len(world.running)
    for _ in range(2):
        # The namespace, and the account without which no pod is taken.
        await api.create(next(left))

    async def create(item: dict[str, Any]) -> None:
        nonlocal done
        await api.create(item)
        done += 1
        progress.detail = f"{done} of {total}"

    await for_each(create, left, _AT_ONCE)
    progress.detail = ""
