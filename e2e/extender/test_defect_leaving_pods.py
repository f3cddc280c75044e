"""D15: a card must stay booked until the containers on it have ended, and not until their deletion begins."""

from __future__ import annotations

from typing import Final

import pytest

from clusters.api.waiting import eventually
from e2e.builders import gpu_pod
from e2e.live_history import LiveHistory
from e2e.observer import Observer

# A node of two cards of 14 units. On one card the scheduler's own sum would hide the defect: it counts pods that leave.
_NODE: Final = "a2"
# Longer than the case, which ends it.
_STOPS_VERY_SLOWLY: Final = {"HOLDS_MIB": 1024, "STOP_SECONDS": 600}


@pytest.mark.promise("D15")
async def test_d15_a_leaving_pod_keeps_its_card(observer: Observer) -> None:
    """Nine units leave slowly, nine are beside them, and nine new ones wait: the node has 28, and no card has nine left."""
    history = LiveHistory(observer.cards(_NODE))
    async with history.following(observer.cluster.api):
        leaving = gpu_pod("leaving", 9, node=_NODE, plays=_STOPS_VERY_SLOWLY)
        leaving["spec"]["terminationGracePeriodSeconds"] = 600
        await observer.run(leaving, gpu_pod("beside", 9, node=_NODE))
        await observer.delete("leaving")
        await observer.create(gpu_pod("new", 9, node=_NODE))

        async def outcome() -> list[object]:
            return [*history.findings, *await observer.events("new", "FailedScheduling")]

        await eventually(outcome, bool, "the new pod waits, or over-books a card")

        assert history.findings == []
        assert (await observer.pod("leaving"))["status"]["phase"] == "Running"
        assert not (await observer.pod("new"))["spec"].get("nodeName")
        await observer.check_all("beside")
