"""A card becomes unhealthy on a node among others, and is healthy again by an operator's word."""

from __future__ import annotations

from typing import Final

import pytest

from clusters.api.resources import NODES
from clusters.api.waiting import eventually
from clusters.targets import Target
from e2e import spec
from e2e.builders import gpu_pod
from e2e.checkers.pod_requests import card_of
from e2e.observer import Observer
from e2e.site.node_cards import amount, described

pytestmark = pytest.mark.needs("health")

# Two cards of 14 units, and in slots mode of SLOTS slots each.
NODE: Final = "a2"
SLOTS: Final = 48


async def heal(observer: Observer, card: int, node: str = NODE) -> None:
    """Repair the card, and wait until all that the node has may be used again.

    An operator's annotation stays until the plugin acts on it, if the plugin publishes its cards.
    """
    cluster = observer.cluster
    await cluster.fake_nvml(node, "repair", observer.uuids(node)[card])

    async def unhealthy_cards() -> list[int]:
        shown = await cluster.api.get(NODES, node)
        cards = described(shown)
        if cards is None:
            return []
        unhealthy = [one.index for one in cards.cards.values() if not one.healthy]
        if unhealthy and spec.NODE_RECOVERED not in shown["metadata"]["annotations"]:
            recovered = {"metadata": {"annotations": {spec.NODE_RECOVERED: ",".join(map(str, unhealthy))}}}
            await cluster.api.patch(NODES, node, recovered)
        return unhealthy

    await eventually(unhealthy_cards, lambda unhealthy: not unhealthy, f"all cards of {node} are healthy")
    # The kubelet reports the units later than the plugin; the next case would take those of the other cards for all.
    await eventually(
        lambda: withheld(observer, node), lambda amounts: not any(amounts.values()), f"{node} offers all units"
    )


async def withheld(observer: Observer, node: str) -> dict[str, int]:
    """How much of each of the plugin's resources the node has and pods may not use."""
    seen = await observer.cluster.api.get(NODES, node)
    resources = spec.RESOURCE_MEMORY, spec.RESOURCE_SLOT
    return {resource: amount(seen, resource) - amount(seen, resource, "allocatable") for resource in resources}


@pytest.mark.promise("DP-006", "DP-021")
async def test_an_unhealthy_card_takes_its_units_and_no_others(observer: Observer, target: Target) -> None:
    """A pod on it goes on, and gets an event if cards are published; a new one gets the other card; repaired, it is back."""
    resource = spec.RESOURCE_SLOT if target.device_plugin.resource == spec.RESOURCE_SLOT else spec.RESOURCE_MEMORY
    whole = {spec.RESOURCE_MEMORY: 28, spec.RESOURCE_SLOT: 2 * SLOTS}[resource]

    async def allocatable() -> int:
        return amount(await observer.cluster.api.get(NODES, NODE), resource, "allocatable")

    (pod,) = await observer.run(gpu_pod("on-it", 3, node=NODE))
    card = card_of(pod)
    held = (3 if resource == spec.RESOURCE_MEMORY else 1) if "cards-annotation" in target.claims else 0
    await observer.cluster.fake_nvml(NODE, "xid", str(card), "79")
    try:
        what = "the units of one of two cards are left, and what the pod has"
        await eventually(allocatable, lambda units: units == whole // 2 + held, what)

        if "cards-annotation" in target.claims:
            await observer.event_text("on-it", spec.EVENT_CARD_UNHEALTHY)
        (beside,) = await observer.run(gpu_pod("beside", 3, node=NODE))
        assert card_of(beside) != card
        await observer.check_right_cards("on-it", "beside")
    finally:
        await heal(observer, card)
    assert await allocatable() == whole
