"""NVML that is slow, shut, or not there; cards that fail, come and go."""

from __future__ import annotations

import asyncio
import time

import pytest

from clusters.api.api_client import Object
from clusters.api.waiting import eventually, until
from e2e import spec
from e2e.builders import gpu_pod
from e2e.checkers.pod_requests import card_of
from e2e.faults.conftest import NODE, NodeUnderFaults

pytestmark = pytest.mark.needs("cards-annotation", "health")


async def test_a_card_is_lost_during_allocate(faults: NodeUnderFaults) -> None:
    """Pods come while a card goes: none is started on it afterwards, the others run on theirs."""
    units = max((await faults.units()).values())
    names = [f"p-{number}" for number in range(4)]
    creating = asyncio.create_task(faults.observer.create(*(gpu_pod(name, units, node=NODE) for name in names)))
    await faults.command("lose", "1")
    await creating
    await faults.shows("a card is lost while pods come", 1)

    def running(pods: list[Object]) -> list[str]:
        return [pod["metadata"]["name"] for pod in pods if pod["status"].get("phase") == "Running"]

    # The fourth ran before the card was lost, or waits for it, or was turned away.
    await eventually(faults.observer.pods, lambda pods: len(running(pods)) >= 3, "three pods run")
    await faults.observer.check_right_cards(*running(await faults.observer.pods()))
    assert await faults.unhealthy() == {1: "lost"}


async def test_nvml_is_slow(faults: NodeUnderFaults) -> None:
    """Five seconds a call: pods are admitted in between, and the changes are seen in the end."""
    await faults.command("slow", "nvmlDeviceGet*", "--seconds", "5", "--count", "2")
    await faults.command("slow", "nvmlEventSetWait*", "--seconds", "5", "--count", "1")
    await faults.observer.run(gpu_pod("meanwhile", 2, node=NODE))
    await faults.observer.check_right_cards("meanwhile")
    await faults.command("xid", "2", "48")
    await faults.shows("Xid 48 while NVML takes 5 s a call", 2)


async def test_nvml_is_uninitialised_under_the_plugin(faults: NodeUnderFaults) -> None:
    """Another user of the library shut it: it is opened again, no card is unhealthy for it, and Xids still arrive."""
    await faults.command("fail", "nvmlEventSetWait*", "--with", "UNINITIALIZED", "--count", "2")
    await faults.command("fail", "nvmlDeviceGet*", "--with", "UNINITIALIZED", "--count", "2")
    await eventually(
        lambda: faults.command("faults"), lambda text: "UNINITIALIZED" not in text, "the plugin has met it"
    )
    await faults.shows("NVML opened again")
    await faults.command("xid", "3", "79")
    await faults.shows("Xid 79 after NVML was opened again", 3)


async def test_the_driver_goes_away_and_comes_back(faults: NodeUnderFaults) -> None:
    """An update of the driver: all cards are unhealthy during it, and healthy afterwards without an operator."""
    cards = set(await faults.units())
    await faults.command("init-fails", "DRIVER_NOT_LOADED")
    await faults.command("fail", "nvmlEventSetWait*", "--with", "UNINITIALIZED")
    await faults.command("fail", "nvmlDeviceGet*", "--with", "UNINITIALIZED")
    await faults.shows("the driver is away", *cards)
    await faults.command("faults", "clear")
    await faults.command("init-fails", "none")
    await faults.shows("the driver is back")


async def test_the_driver_is_missing_at_the_start(faults: NodeUnderFaults) -> None:
    """The plugin waits, logs something, and goes on without help."""
    await faults.cluster.kill("device_plugin", NODE)
    before = faults.cluster.log("device_plugin", NODE)
    await faults.command("init-fails", "DRIVER_NOT_LOADED")
    starting = asyncio.create_task(faults.cluster.launch("device_plugin", NODE))
    await until(
        lambda: faults.cluster.log("device_plugin", NODE), lambda text: len(text) > len(before), "the plugin logs that"
    )
    assert not starting.done()
    await faults.command("init-fails", "none")
    await starting
    await faults.shows("the driver was missing at the start and came")


async def test_a_cards_uuid_changes(faults: NodeUnderFaults) -> None:
    """A stopped and started cloud machine: the old card is gone, the new one has its units and an index that no pod names."""
    old = await faults.indices()
    gone = list(old)[2]
    swapping = time.monotonic()
    await faults.command("swap", gone)
    new = await eventually(
        faults.indices, lambda seen: gone not in seen and len(seen) == len(old), "the node shows the new card"
    )
    assert len(new.keys() & old.keys()) == len(old) - 1
    await faults.shows("a card has another UUID", since=swapping)
    pods = await faults.observer.run(*(gpu_pod(f"p-{number}", 20, node=NODE) for number in range(4)))
    visible = {(await faults.observer.variables(pod))[0][spec.ENV_VISIBLE] for pod in pods}
    assert visible == new.keys()


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
