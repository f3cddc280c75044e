"""Cards of 81,920 MiB in exact MiB: eight of them, or two if each container is a real one."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio

from clusters.api.resources import NODES
from clusters.api.waiting import eventually
from clusters.provider import NodeSpec
from clusters.targets import Target
from e2e import spec
from e2e.builders import gpu_pod, with_slots
from e2e.checkers.pod_requests import card_of, units_of
from e2e.observer import Observer, OwnCluster, observing
from e2e.real_kubelets import STAND_INS
from e2e.site.node_cards import amount

pytestmark = pytest.mark.needs("slots")

NODE: Final = "big"
_EIGHT: Final = "a100x8"
_TWO: Final = str(Path(__file__).parents[1] / "boxes" / "a100x2.yaml")
MIB: Final = 81_920
# Five odd amounts for each card; the last is what is left of it.
AMOUNTS: Final = (20_001, 20_001, 8_138, 13_777)
_NUMBERS = itertools.count(1)


@pytest.fixture(scope="module")
def cards(request: pytest.FixtureRequest) -> int:
    """How many the node has."""
    return 8 if request.config.getoption("--cluster") in STAND_INS else 2


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def slots_cluster(own: OwnCluster, slots_target: Target, cards: int) -> AsyncIterator[Any]:
    """The target's programs in slots mode, with its policy that adds slots to pods, if the API server has such policies."""
    nodes = [NodeSpec(NODE, box=_EIGHT if cards > 2 else _TWO)]
    async with own(nodes, slots_target) as cluster:
        yield cluster


@pytest_asyncio.fixture(loop_scope="session")
async def slots(slots_cluster: Any) -> AsyncIterator[Observer]:
    """A namespace of the case's own; a unit is a MiB."""
    async with observing(slots_cluster, f"slots-{next(_NUMBERS)}", mib_per_unit=1) as observer:
        yield observer


def slot_pod(name: str, *mib: int, **more: Any) -> dict[str, Any]:
    """A pod that names its slots: what the policy would do, done by hand, so that old API servers serve, too."""
    return with_slots(gpu_pod(name, *mib, **more))


async def test_pods_of_odd_sizes_fill_the_cards_to_the_mib(slots: Observer, cards: int) -> None:
    """Five pods a card leave nothing; one more, of 1 MiB, waits for that reason; no card is over-booked."""
    names = []
    for card in range(cards):
        for number, mib in enumerate((*AMOUNTS, MIB - sum(AMOUNTS))):
            name = f"p-{card}-{number}"
            await slots.create(slot_pod(name, mib))
            # The smallest free block that holds it is on the card of the one before: one after the other fills a card.
            await eventually(lambda name=name: slots.pod(name), is_bound, f"{name} is bound")  # type: ignore[misc]  # at once
            names.append(name)
    await slots.running(*names)
    await slots.create(slot_pod("too-much", 1))
    await slots.waits_because("too-much", "nsufficient")

    pods = await slots.check_right_cards(*names)
    await slots.check_books()
    assert [int(pod["metadata"]["annotations"][spec.POD_UNITS]) for pod in pods] == list(map(units_of, pods))
    assert booked_by_card(pods, cards) == dict.fromkeys(range(cards), MIB)
    assert {pod["metadata"]["annotations"][spec.POD_DEVICE_UNITS] for pod in pods} == {str(MIB)}


async def test_amounts_are_exact_over_restarts(slots: Observer, cards: int) -> None:
    """Pods of odd sizes keep their cards and exact MiB over restarts of the kubelet and of both while others come and go."""
    there: dict[str, int] = {}
    lives: dict[str, Any] = {}
    for step, sizes in enumerate([(81_919, 40_961), (1, 13_777), (27_181, 1)]):
        added = {f"p-{step}-{number}": mib for number, mib in enumerate(sizes)}
        await slots.create(*(slot_pod(name, mib) for name, mib in added.items()))
        there |= added
        lives |= await slots.lives(*added)
        await slots.restart(NODE, "both" if step else "kubelet")
        await eventually(lambda: _amount(slots, "allocatable", spec.RESOURCE_SLOT), bool, "the slots are back")

        assert lives == await slots.lives(*there)
        pods = await slots.check_right_cards(*there)
        assert {pod["metadata"]["name"]: int(pod["metadata"]["annotations"][spec.POD_UNITS]) for pod in pods} == there
        await slots.check_books()
        assert await _amount(slots, "capacity", spec.RESOURCE_MEMORY) == cards * MIB
        if step == 1:
            await slots.delete("p-0-1", 1)
            del there["p-0-1"], lives["p-0-1"]
            await slots.are_gone("p-0-1")
    free = sorted(MIB - booked for booked in booked_by_card(await slots.pods(), cards).values())
    await slots.run(slot_pod("rest", free[-1]))
    await slots.create(slot_pod("too-much", free[-2] + 1))
    await slots.waits_because("too-much", "")
    await slots.check_books()


def booked_by_card(pods: list[Any], cards: int) -> dict[int, int]:
    """MiB that annotations put on each card."""
    booked = dict.fromkeys(range(cards), 0)
    for pod in pods:
        booked[card_of(pod)] += units_of(pod)
    return booked


async def _amount(slots: Observer, kind: str, resource: str) -> int:
    return amount(await slots.cluster.api.get(NODES, NODE), resource, kind)


def is_bound(pod: Any) -> bool:
    """Has it the node?"""
    return bool(pod["spec"].get("nodeName") == NODE)
