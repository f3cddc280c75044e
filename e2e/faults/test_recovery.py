"""A card recovers by rule, never by a guess."""

from __future__ import annotations

import pytest

from e2e import spec
from e2e.faults.node_under_faults import NODE, NodeUnderFaults

pytestmark = pytest.mark.needs("cards-annotation", "health")


async def test_a_card_recovers_by_an_operators_word(faults: NodeUnderFaults) -> None:
    """The pod on it gets an event; the annotation is taken off the Node."""
    pods = await faults.pods_on_each_card()
    await faults.command("xid", "1", "48")
    await faults.shows("Xid 48, to be recovered by word", 1)
    await faults.observer.event_text(pods[1], spec.EVENT_CARD_UNHEALTHY)
    await faults.heal()

    await faults.observer.event_text(pods[1], spec.EVENT_CARD_RECOVERED)
    assert spec.NODE_RECOVERED not in (await faults.node())["metadata"]["annotations"]


@pytest.mark.promise("DP-006")
async def test_card_without_a_recovery_action_recovers_after_cool_down(faults: NodeUnderFaults) -> None:
    """The driver advises a reset: it stays unhealthy; the reset is done, and after a calm second it is healthy."""
    await faults.command("xid", "2", "48")
    await faults.shows("Xid 48, to be recovered by a reset", 2)
    await faults.command("repair", "2")
    await faults.shows("recovery by the driver's word (cool-down 1 s)")


async def test_a_lost_card_that_answers_again_recovers(faults: NodeUnderFaults) -> None:
    """A card that fell off and came back recovers after its cool-down."""
    await faults.command("lose", "3")
    await faults.shows("a card is lost", 3)
    await faults.command("repair", "3")
    await faults.shows("a lost card answers again (cool-down 1 s)")


@pytest.mark.promise("DP-006")
async def test_a_reboot_recovers_a_card(faults: NodeUnderFaults) -> None:
    """Another boot id: the card starts again, although the driver advised a reset before."""
    await faults.command("xid", "0", "79")
    await faults.shows("Xid 79, to be recovered by a reboot", 0)
    before = (await faults.node())["status"]["nodeInfo"]["bootID"]
    await faults.cluster.restart_kubelet(NODE, reboot=True)
    await faults.shows("recovery by a reboot")

    assert (await faults.node())["status"]["nodeInfo"]["bootID"] != before


async def test_a_restart_of_the_kubelet_recovers_nothing(faults: NodeUnderFaults) -> None:
    """The machine is the same."""
    await faults.command("xid", "0", "79")
    await faults.shows("Xid 79 before a kubelet's restart", 0)
    await faults.cluster.restart_kubelet(NODE)
    await faults.shows("Xid 79 after a kubelet's restart", 0)

    assert await faults.unhealthy() == {0: "Xid 79"}
