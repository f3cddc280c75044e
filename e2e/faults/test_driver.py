"""NVML that is slow, shut, or not there; cards that come and go."""

from __future__ import annotations

import asyncio
import time

from clusters.api.resources import PODS
from clusters.api.waiting import eventually
from e2e import spec
from e2e.builders import gpu_pod
from e2e.faults.fault_stage import NODE, FaultStage


async def test_a_card_is_lost_during_allocate(faults: FaultStage) -> None:
    """Pods come while a card goes: none is started on it afterwards, the others run on theirs."""
    units = max((await faults.units()).values())
    names = [f"p-{number}" for number in range(4)]
    creating = asyncio.create_task(faults.observer.create(*(gpu_pod(name, units, node=NODE) for name in names)))
    await faults.command("lose", "1")
    await creating
    await faults.shows("a card is lost while pods come", 1)

    async def phases() -> list[str]:
        return [pod["status"].get("phase", "") for pod in await faults.observer.pods()]

    # The fourth ran before the card was lost, or waits for it, or was turned away.
    await eventually(phases, lambda seen: seen.count("Running") >= 3, "three pods run")
    running = [pod for pod in await faults.observer.pods() if pod["status"].get("phase") == "Running"]
    await faults.observer.check_right_cards(*(pod["metadata"]["name"] for pod in running))
    assert await faults.sick() == {1: "lost"}


async def test_nvml_is_slow(faults: FaultStage) -> None:
    """Five seconds a call: pods are admitted in between, and the changes are seen in the end."""
    await faults.command("slow", "nvmlDeviceGet*", "--seconds", "5", "--count", "2")
    await faults.command("slow", "nvmlEventSetWait*", "--seconds", "5", "--count", "1")
    await faults.observer.run(gpu_pod("meanwhile", 2, node=NODE))
    await faults.observer.check_right_cards("meanwhile")
    await faults.command("xid", "2", "48")
    await faults.shows("Xid 48 while NVML takes 5 s a call", 2)


async def test_nvml_is_uninitialised_under_the_plugin(faults: FaultStage) -> None:
    """Another user of the library shut it: it is opened again, no card is sick for it, and Xids still arrive."""
    await faults.command("fail", "nvmlEventSetWait*", "--with", "UNINITIALIZED", "--count", "2")
    await faults.command("fail", "nvmlDeviceGet*", "--with", "UNINITIALIZED", "--count", "2")

    async def left() -> str:
        return await faults.command("faults")

    await eventually(left, lambda text: "UNINITIALIZED" not in text, "the plugin has met it")
    await faults.shows("NVML opened again")
    await faults.command("xid", "3", "79")
    await faults.shows("Xid 79 after NVML was opened again", 3)


async def test_the_driver_goes_away_and_comes_back(faults: FaultStage) -> None:
    """An update of the driver: all cards are sick during it, and well afterwards without an operator."""
    cards = set(await faults.units())
    await faults.command("init-fails", "DRIVER_NOT_LOADED")
    await faults.command("fail", "nvmlEventSetWait*", "--with", "UNINITIALIZED")
    await faults.command("fail", "nvmlDeviceGet*", "--with", "UNINITIALIZED")
    await faults.shows("the driver is away", *cards)
    await faults.command("faults", "clear")
    await faults.command("init-fails", "none")
    await faults.shows("the driver is back")


async def test_the_driver_is_missing_at_the_start(faults: FaultStage) -> None:
    """The plugin waits, logs it, and goes on without help."""
    await faults.cluster.kill("device_plugin", NODE)
    await faults.command("init-fails", "DRIVER_NOT_LOADED")
    starting = asyncio.create_task(faults.cluster.launch("device_plugin", NODE))

    async def log() -> str:
        return faults.cluster.log("device_plugin", NODE)

    await eventually(log, lambda text: "no cards to share" in text, "the plugin says that it waits")
    assert not starting.done()
    await faults.command("init-fails", "none")
    await starting
    await faults.shows("the driver was missing at the start and came")


async def test_a_card_is_added_and_removed(faults: FaultStage) -> None:
    """A card comes and goes without a restart of the plugin, and the other cards keep their indices."""
    before = {card["uuid"]: card["index"] for card in await faults.facts()}
    adding = time.monotonic()
    await faults.command("add", "--model", "a10")

    async def cards() -> dict[str, int]:
        return {card["uuid"]: card["index"] for card in await faults.facts()}

    more = await eventually(cards, lambda seen: len(seen) == len(before) + 1, "the node has a card more")
    (added,) = set(more) - set(before)
    assert {uuid: more[uuid] for uuid in before} == before
    await faults.shows("a card was added", since=adding)
    await faults.observer.run(*(gpu_pod(f"p-{number}", 20, node=NODE) for number in range(5)))
    for pod in await faults.observer.pods():
        await faults.cluster.api.delete(PODS, pod["metadata"]["name"], faults.observer.namespace, grace_seconds=0)
    await eventually(faults.observer.pods, lambda pods: not pods, "the pods are gone")
    removing = time.monotonic()
    await faults.command("remove", added)
    await eventually(cards, lambda seen: seen == before, "the node has the cards of before")
    await faults.shows("a card was removed", since=removing)

    async def count() -> str:
        return str((await faults.node())["status"]["capacity"][spec.RESOURCE_COUNT])

    await eventually(count, lambda seen: seen == str(len(before)), "gpu-count is that of before")


async def test_a_cards_uuid_changes(faults: FaultStage) -> None:
    """A stopped and started cloud machine: the old card is gone, the new one has its units and an index that no pod names."""
    old = {card["uuid"] for card in await faults.facts()}
    gone = str((await faults.facts())[2]["uuid"])
    swapping = time.monotonic()
    await faults.command("swap", gone)

    async def uuids() -> set[str]:
        return {card["uuid"] for card in await faults.facts()}

    new = await eventually(
        uuids, lambda seen: gone not in seen and len(seen) == len(old), "the node shows the new card"
    )
    assert len(new & old) == len(old) - 1
    await faults.shows("a card has another UUID", since=swapping)
    await faults.observer.create(*(gpu_pod(f"p-{number}", 20, node=NODE) for number in range(4)))
    names = [f"p-{number}" for number in range(4)]
    await faults.observer.running(*names)
    pods = [await faults.observer.pod(name) for name in names]
    visible = {(await faults.observer.variables(pod))[0][spec.ENV_VISIBLE] for pod in pods}
    assert visible == new
