"""Pods that are being deleted hold their cards, also on a node where the scheduler's own sum has room."""

from __future__ import annotations

from clusters.api.waiting import eventually
from e2e.builders import STOPS_SLOWLY, gpu_pod
from e2e.checkers.pod_requests import card_of
from e2e.observer import Observer


async def test_d15_a_leaving_pods_card_is_not_given_away(observer: Observer) -> None:
    """D15: memory was free as soon as the deletion began. 9 leave slowly, 9 stay on the other card; 9 more wait, then run."""
    leaving = gpu_pod("leaving", 9, node="a2", plays=STOPS_SLOWLY)
    leaving["spec"]["terminationGracePeriodSeconds"] = 30
    first, stays = await observer.run(leaving, gpu_pod("stays", 9, node="a2"))
    assert card_of(first) != card_of(stays)
    await observer.delete("leaving")
    # Beside these the node's sum has room for them: 9 + 9 + 9 of 28.
    await observer.create(gpu_pod("next", 9, node="a2"))

    bound = await eventually(
        lambda: observer.pod("next"), lambda pod: bool(pod["spec"].get("nodeName")), "next has a node", seconds=120
    )
    left = [pod for pod in await observer.pods() if pod["metadata"]["name"] == "leaving"]
    assert card_of(bound) != card_of(stays)
    assert all(pod["status"]["phase"] in ("Succeeded", "Failed") for pod in left), "leaving still ran"
    await observer.running("next", seconds=120)
    await observer.check_all("next", "stays")
