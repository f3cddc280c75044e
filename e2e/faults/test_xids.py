"""Xids: those of applications change nothing, every other takes its card, and no other."""

from __future__ import annotations

import pytest

from e2e import spec
from e2e.builders import gpu_pod
from e2e.checkers.plugin_answers import XIDS_OF_APPLICATIONS
from e2e.checkers.pod_requests import card_of
from e2e.faults.node_under_faults import BESIDE, NODE, NodeUnderFaults

pytestmark = pytest.mark.needs("cards-annotation", "health")

CRITICAL = (48, 79, 119)


async def test_an_applications_xid_changes_nothing(faults: NodeUnderFaults) -> None:
    """NVIDIA's list: the fault is the program's. A critical one on another card shows that all of them were read before."""
    for xid in XIDS_OF_APPLICATIONS:
        await faults.command("xid", "1", xid)
    await faults.command("xid", "2", "48")
    await faults.shows("Xids of applications ignored, Xid 48 beside them", 2)

    assert await faults.unhealthy() == {2: "Xid 48"}


@pytest.mark.promise("DP-021")
@pytest.mark.parametrize("xid", CRITICAL)
async def test_a_critical_xid_takes_one_card(faults: NodeUnderFaults, xid: int) -> None:
    """Allocatable falls by that card's free units; only its pod gets an event, and runs on; the node beside is as it was."""
    beside = await faults.allocatable(BESIDE)
    pods = await faults.pods_on_each_card()
    await faults.command("xid", "1", str(xid))
    await faults.shows(f"Xid {xid}", 1)

    assert str(xid) in await faults.observer.event_text(pods[1], spec.EVENT_CARD_UNHEALTHY)
    assert await faults.unhealthy() == {1: f"Xid {xid}"}
    assert await faults.allocatable(BESIDE) == beside
    running = await faults.observer.running(*pods.values())
    assert not any(one.get("restartCount") for pod in running for one in pod["status"]["containerStatuses"])
    for index in (0, 2, 3):
        assert await faults.observer.events(pods[index], spec.EVENT_CARD_UNHEALTHY) == []


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
