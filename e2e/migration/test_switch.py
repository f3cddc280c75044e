"""From the original's device plugin to ours and back: what runs goes on, and no card is booked twice."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from clusters.api.api_client import Object
from clusters.api.waiting import eventually
from clusters.targets import Target
from e2e import spec
from e2e.builders import SLEEPS, gpu_pod
from e2e.migration.mixed_fleet import original_fleet
from e2e.observer import Observer

pytestmark = pytest.mark.needs("takeover")

# Two cards of 14 units.
NODE: Final = "a2"
# Shows its variables and fails, again and again: a kubelet restarts it immediately, after 10 s, after 20 s.
_FAILS: Final = {**SLEEPS, "EXITS_AFTER": 3, "EXIT_CODE": 1}


async def starts_again(observer: Observer, name: str) -> Object:
    """Wait until the pod's container was started once more than now; the pod."""

    def count(pod: Object) -> int:
        statuses = pod["status"].get("containerStatuses") or [{}]
        return int(statuses[0].get("restartCount", 0))

    before = count(await observer.pod(name))
    return await eventually(
        lambda: observer.pod(name), lambda pod: count(pod) > before, f"{name} is started again", seconds=150
    )


async def test_over_to_ours_and_back(observer: Observer, target: Target, tmp_path: Path) -> None:
    """Pods of the original's plugin keep card and container over the switch to ours, and our pods keep theirs over the way back.

    New pods fit beside them, and none gets a card without room.
    """
    async with original_fleet(observer, target, tmp_path, NODE):
        await observer.create(gpu_pod("nine", 9, node=NODE), gpu_pod("eight", 8, node=NODE))
        before = await observer.lives("nine", "eight")
        await observer.create(gpu_pod("failing", 4, node=NODE, plays=_FAILS))
        await starts_again(observer, "failing")
        told = {name: (await observer.variables(await observer.pod(name)))[0] for name in before}
        assert {name: one[spec.ENV_VISIBLE] for name, one in told.items()} == {
            name: card for name, (_, card) in before.items()
        }

    # The one that fails is beside nine, which leaves one unit; three and two fit beside eight, which leaves another.
    assert before == await observer.lives("nine", "eight")
    await observer.create(gpu_pod("three", 3, node=NODE), gpu_pod("two", 1, 1, node=NODE))
    ours = await observer.lives("three", "two")
    await observer.create(gpu_pod("too-much", 2, node=NODE))
    await observer.waits_because("too-much", "nsufficient")
    again = await starts_again(observer, "failing")
    await observer.check_right_cards("nine", "eight", "three", "two")
    assert again["metadata"]["annotations"][spec.POD_INDEX] == before["nine"][1]
    await observer.cluster.restart_kubelet(NODE)
    await observer.shows(NODE, "28")
    assert before | ours == await observer.lives("nine", "eight", "three", "two")

    async with original_fleet(observer, target, tmp_path, NODE):
        assert before | ours == await observer.lives("nine", "eight", "three", "two")
        await observer.check_all("nine", "eight", "three", "two")
    assert before | ours == await observer.lives("nine", "eight", "three", "two")
