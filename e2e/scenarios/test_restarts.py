"""After the end of any program the book is rebuilt, and pods keep their cards."""

from __future__ import annotations

import asyncio
import random
from typing import Final

import pytest

from clusters.api.api_client import Object
from clusters.api.waiting import eventually
from e2e.builders import gpu_pod
from e2e.observer import Observer

# Enough that some are on their way at each kill; a small machine starts one or two real containers a second.
PODS: Final = 20


@pytest.mark.promise("E2E-004", "EXT-026", "EXT-027")
@pytest.mark.promise("D05", "D20")
async def test_extender_killed_under_load_over_books_nothing(observer: Observer) -> None:
    """Killed again and again while pods come; all run in the end, what was full stays full and every book holds (defect D20)."""
    rng = random.Random(4)
    await observer.run(gpu_pod("holder", 14, node="a1"))
    names = [f"load-{number:02}" for number in range(PODS)]
    creating = asyncio.create_task(observer.create(*(gpu_pod(name, rng.randint(1, 3)) for name in names)))

    def is_under_way(pods: list[Object]) -> bool:
        return any(pod["spec"].get("nodeName") and pod["metadata"]["name"] in names for pod in pods)

    for _ in range(3):
        await eventually(observer.pods, is_under_way, "a pod is bound")
        await observer.cluster.kill("extender")
        await observer.cluster.launch("extender")
    await creating
    await observer.running(*names, seconds=240)

    await observer.check_all("holder", *names)
