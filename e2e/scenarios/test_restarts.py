"""After the end of any program the book is rebuilt, and pods keep their cards."""

from __future__ import annotations

import asyncio
import random
from typing import Final

import pytest

from clusters.api.waiting import eventually
from e2e.builders import gpu_pod
from e2e.observer import Observer

# Enough that some are on their way at each kill; a small machine starts one or two real containers a second.
PODS: Final = 20


@pytest.mark.promise("E2E-004", "EXT-026", "EXT-027")
@pytest.mark.promise("D05", "D20")
async def test_extender_killed_under_load_over_books_nothing(observer: Observer) -> None:
    """Killed again and again while pods come; all run in the end and every book holds (defect D20)."""
    rng = random.Random(4)
    names = [f"load-{number:02}" for number in range(PODS)]
    creating = asyncio.create_task(observer.create(*(gpu_pod(name, rng.randint(1, 3)) for name in names)))
    for _ in range(3):
        await eventually(observer.pods, lambda pods: any(pod["spec"].get("nodeName") for pod in pods), "a pod is bound")
        await observer.cluster.kill("extender")
        await observer.cluster.launch("extender")
    await creating
    await observer.running(*names, seconds=240)

    await observer.check_all(*names)


@pytest.mark.promise("EXT-026")
async def test_a_new_extender_knows_which_pod_has_which_card(observer: Observer) -> None:
    """The book is rebuilt from annotations alone; what was full stays full."""
    await observer.run(gpu_pod("holder", 14, node="a1"))
    before = await observer.inspect("/a1")
    await observer.cluster.kill("extender")
    await observer.cluster.launch("extender")

    assert before == await observer.inspect("/a1")
    await observer.create(gpu_pod("next", 1, node="a1"))
    await observer.waits_because("next", "nsufficient")
