"""An Xid takes its card, and no other."""

from __future__ import annotations

import pytest

from e2e import spec
from e2e.builders import gpu_pod
from e2e.checkers.pod_requests import card_of
from e2e.faults.conftest import NODE, NodeUnderFaults

pytestmark = pytest.mark.needs("cards-annotation", "health")


@pytest.mark.promise("DP-021")
async def test_pods_of_an_unhealthy_card_block_no_other_card(faults: NodeUnderFaults) -> None:
    """Three cards are nearly full and one of them fails: the empty one is used, and nothing lands on the failed one.

    kube-scheduler counts the pods of the failed card until they end, so what they have must be allocatable until then.
    """
    whole = max((await faults.units()).values())
    observer = faults.observer
    pods = await observer.run(*(gpu_pod(f"on-{number}", whole - 1, node=NODE) for number in range(3)))
    failed = card_of(pods[0])
    await faults.command("xid", str(failed), "79")
    await faults.shows("Xid 79 below a pod", failed)
    (beside,) = await observer.run(gpu_pod("beside", whole, node=NODE))
    assert {card_of(pod) for pod in (*pods, beside)} == set(await faults.units())

    await observer.create(gpu_pod("late", 2, node=NODE))
    await observer.waits_because("late", spec.REASON_NO_CARD_FITS)
    await observer.delete("on-0")
    await observer.are_gone("on-0")
    await faults.shows("the end of a pod on a card of Xid 79", failed)
    assert not (await observer.pod("late"))["spec"].get("nodeName")
    await faults.heal()

    (late,) = await observer.running("late")
    assert card_of(late) == failed
