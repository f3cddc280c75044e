"""Between the first change and the last: one side's extender with the other side's plugin."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from clusters.api.waiting import eventually
from clusters.targets import Target
from e2e import spec
from e2e.builders import gpu_pod
from e2e.checkers.history import judge
from e2e.checkers.overcommit import over_told
from e2e.live_history import LiveHistory
from e2e.migration.mixed_fleet import MixedFleet, original_fleet
from e2e.observer import Observer
from e2e.site.node_cards import described

pytestmark = [
    pytest.mark.needs("takeover"),
    pytest.mark.stand_in_only("the original's stand-ins are started on this machine, beside simulated cards"),
]

# Two cards of 14 units; two of 14 and one of 10, which total / count takes for 12 each.
EQUAL, UNEQUAL = "a2", "b2"


@pytest_asyncio.fixture(loop_scope="session")
async def fleet(observer: Observer, target: Target, tmp_path: Path) -> AsyncIterator[MixedFleet]:
    """All is ours, and each program can be changed."""
    async with original_fleet(observer, target, tmp_path) as fleet:
        yield fleet


async def fills(observer: Observer, node: str) -> None:
    """Two cards of 14 are filled to the last unit, each pod has the card that was booked for it, and one pod more waits."""
    history = LiveHistory(observer.cards(node))
    async with history.following(observer.cluster.api):
        for name, units in (("nine", 9), ("eight", 8), ("five", 5), ("six", 6)):
            await observer.run(gpu_pod(name, units, node=node))
        pods = await observer.check_right_cards("nine", "eight", "five", "six")
        await observer.create(gpu_pod("more", 1, node=node))
        await observer.waits_because("more", "nsufficient")
        await eventually(
            lambda: observer.running("nine", "eight", "five", "six"),
            lambda now: all(pod["metadata"]["annotations"][spec.POD_ASSIGNED] == "true" for pod in now),
            "each pod is marked",
        )
    assert {pod["metadata"]["annotations"][spec.POD_INDEX] for pod in pods} == {"0", "1"}
    assert history.findings == []


async def test_our_extender_fills_the_cards_of_an_old_plugin(observer: Observer, fleet: MixedFleet) -> None:
    """Our extender with the original's plugin, which has our role and policies: total / count is filled, and no more."""
    await fleet.originals_plugin(EQUAL)
    assert described(await fleet.node(EQUAL)) is None

    await fills(observer, EQUAL)


async def test_an_old_extender_fills_the_cards_of_our_plugin(observer: Observer, fleet: MixedFleet) -> None:
    """The original's extender with our plugin, on cards of one size."""
    await fleet.originals_extender()

    await fills(observer, EQUAL)


async def test_a_pod_over_booked_by_an_old_extender_is_not_started(observer: Observer, fleet: MixedFleet) -> None:
    """The original's extender books 12 units on a card of 10; our plugin turns that pod away, and the others run."""
    await fleet.originals_extender()
    names = ["first", "second", "third"]
    await observer.create(*(gpu_pod(name, 12, node=UNEQUAL) for name in names))
    pods = [await observer.reaches(name, "Running", "Failed") for name in names]

    ran = [pod["metadata"]["name"] for pod in pods if pod["status"]["phase"] == "Running"]
    (refused,) = (pod for pod in pods if pod["status"]["phase"] == "Failed")
    assert refused["metadata"]["annotations"][spec.POD_INDEX] == "2"
    listed = await observer.listed()
    running = await observer.check_right_cards(*ran)
    assert judge([listed, observer.cards(UNEQUAL), *await observer.told(running)], over_told) == []
