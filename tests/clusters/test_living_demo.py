"""Promises of ``up --demo``: each pod that comes goes again, and all that it shows can be seen."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from clusters.api.resources import EVENTS, PODS
from clusters.api.waiting import eventually, meanwhile
from clusters.demo import LIVING_NODES, UNHEALTHY_NODE, WAITING_POD, first_pods, live, settle
from clusters.provider import load_nodes
from clusters.providers import Choices, make_cluster
from clusters.targets import load_target

# A visitor stays for four of these, on a slow machine long enough to run.
_PAUSE_SECONDS = 0.3
MOST_PODS = len(list(first_pods())) + 4


async def test_a_living_cluster_shows_all_that_it_is_for(tmp_path: Path) -> None:
    """Pods come and go, one waits, one overuses, a card becomes unhealthy and recovers; the number of pods is bounded."""
    choices = Choices({**os.environ, "TMPDIR": str(tmp_path)})
    cluster = make_cluster("embedded", load_nodes(LIVING_NODES), load_target("gpushare"), choices)
    await cluster.start()
    seen: set[tuple[str, str]] = set()

    async def look() -> set[tuple[str, str]]:
        events = await cluster.api.list(EVENTS)
        seen.update((event["involvedObject"]["name"], event["reason"]) for event in events)
        pods = await cluster.api.list(PODS, "default")
        # Visitors of an earlier life that are being deleted do not show that another one goes on.
        staying = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
        assert len(staying) <= MOST_PODS
        seen.update((pod["metadata"]["name"], pod["status"]["phase"]) for pod in staying)
        return seen

    def visitors_ran() -> int:
        """How many visitors were seen as they ran; one may come and go between two looks."""
        return len([name for name, phase in seen if name.startswith("visitor-") and phase == "Running"])

    async def pod_is_gone() -> Any:
        return await cluster.api.find(PODS, "visitor-0", "default")

    wanted = {
        (WAITING_POD, "FailedScheduling"),
        ("greedy", "GPUShareMemoryOveruse"),
        (UNHEALTHY_NODE, "GPUShareCardUnhealthy"),
        (UNHEALTHY_NODE, "GPUShareCardRecovered"),
    }
    try:
        await settle(cluster)
        async with meanwhile(live(cluster, pause_seconds=_PAUSE_SECONDS)):
            await eventually(look, wanted.issubset, f"all of {wanted}")
            await eventually(look, lambda _: visitors_ran() >= 2, "two visitors run")
            await eventually(pod_is_gone, lambda found: found is None, "the first visitor is gone")
        assert (WAITING_POD, "Running") not in seen
        # It goes on where another one stopped, and a user may have deleted its pods.
        await cluster.api.delete(PODS, "greedy", "default")
        await settle(cluster)
        seen.clear()
        async with meanwhile(live(cluster, pause_seconds=_PAUSE_SECONDS)):
            await eventually(look, lambda _: visitors_ran() >= 2, "a second life goes on")
    finally:
        await cluster.stop()
