"""Does sharing work on each node of this cluster? Small pods, created as a user creates them, look from inside."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from clusters.api.api_client import Object
from clusters.api.waiting import glimpse
from clusters.providers import BARE
from e2e import spec
from e2e.checkers.history import Card, Cards, Listed, judge
from e2e.checkers.overcommit import over_booked, shares_or_none
from e2e.checkers.pod_requests import gpu_containers
from e2e.checkers.right_card import check_pod
from e2e.onsite import machine_recording
from e2e.onsite.card_room import NodeRoom
from e2e.onsite.foreign_cluster import ForeignCluster
from e2e.onsite.gaps import unless_refused
from e2e.onsite.probe_pods import probe_pod
from e2e.onsite.site_results import VISIT
from e2e.site.picture import annotations_of
from fake_nvml.recording import steady

pytestmark = pytest.mark.usefixtures("clean")
# The demo's player of the original holds this much, in MiB; three of them share one card.
_PLAYER_MIB: Final = 1253
_PLAYERS: Final = 3
# A CUDA context takes memory of its own on the card (518 MiB on an H100), so this part of a share is not asked for.
_CONTEXT_MIB: Final = 768
_SHARE_MIB: Final = 2048
_BOOKED_MIB: Final = 1024
_ENDED: Final = ("Succeeded", "Failed")
_LONG: Final = 600
# The first driver that limits memory, and the reasons of the node's condition if it does.
_LIMITS_SINCE: Final = 615
_LIMITING: Final = ("Enforced", "SomeNotLimited", "NotVerified")
# The reason of a pod for which the kubelet has no devices.
_NOT_ADMITTED: Final = "UnexpectedAdmissionError"
# As the dynamic loader words it.
_NO_LIBRARY: Final = "cannot open shared object file"


async def test_a_pod_runs_on_the_card_that_it_got(site: ForeignCluster, node: str) -> None:
    """A pod that asks for card memory runs, and its annotation and its variables name one card and the right amounts."""
    room = await site.needs(node)
    await look(site, room, "look", 1)

    await check(site, room, "look")


async def test_containers_of_a_pod_get_their_amounts(site: ForeignCluster, node: str) -> None:
    """Two containers of a pod see the same card, and each gets its own amount."""
    room = await site.needs(node, 3, containers=2)
    await look(site, room, "two", 1, 2)

    await check(site, room, "two")


async def test_pods_that_run_together_fit_the_cards(site: ForeignCluster, node: str) -> None:
    """Two pods run on a node at the same time, and no card has more booked than it has."""
    room = await site.needs(node, pods=2)
    for name in ("first", "second"):
        await hold(site, room, name, 1, seconds=_LONG, mib=0)
    for name in ("first", "second"):
        await site.runs(name)
    pods = [await site.pod(name) for name in ("first", "second")]
    room = await site.room(node)
    cards = Cards(0.0, node, {card.index: Card(card.units) for card in room.cards})
    found = judge([Listed(0.0, pods), cards], over_booked)
    too_full = [card.index for card in room.cards if card.free.units < 0]

    for pod in pods:
        check_node(pod, node)
        assert shares_or_none(pod), f"{glimpse(pod)}: no annotation places its request on cards"
    assert found == [], f"cards of {node} are over-booked: {found}"
    assert too_full == [], f"pods on {node} have booked more than cards {too_full} have"


async def test_a_container_sees_its_card_alone(site: ForeignCluster, node: str) -> None:
    """NVML in a container shows one card, that of the pod's annotation."""
    room = await site.needs(node)
    needs_hiding(site)
    await look(site, room, "nvml", 1)
    nvml = await part(site, "nvml", "nvml")
    needs_driver(site, node, nvml)
    index = int(index_of(await site.pod("nvml")))

    assert "error" not in nvml, f"NVML in the container fails: {nvml['error']}"
    seen, wanted = [card["uuid"] for card in nvml["cards"]], uuid_of(room, index)
    assert seen == [wanted], (
        f"NVML in the container shows {', '.join(seen) or 'no card'}; the pod got card {index}, {wanted}"
    )


async def test_nvidia_smi_shows_the_card_alone(site: ForeignCluster, node: str) -> None:
    """``nvidia-smi -L`` in a container lists one card, that of the pod's annotation."""
    room = await site.needs(node)
    needs_hiding(site)
    await look(site, room, "smi", 1)
    smi = await part(site, "smi", "nvidia-smi")
    if "not in PATH" in smi.get("error", ""):
        pytest.skip("nvidia-smi is not in the container's PATH")
    index = int(index_of(await site.pod("smi")))

    assert "error" not in smi, f"nvidia-smi in the container fails: {smi['error']}"
    lines, wanted = smi["lines"], uuid_of(room, index)
    is_alone = len(lines) == 1 and wanted in lines[0]
    assert is_alone, (
        f"nvidia-smi in the container lists {'; '.join(lines) or 'no card'}; the pod got card {index}, {wanted}"
    )


async def test_a_program_gets_the_memory_of_its_share(site: ForeignCluster, node: str) -> None:
    """A CUDA program allocates its share of the card through libcuda, writes to it, and reads it back."""
    room = await site.needs(node, mib=_SHARE_MIB)
    units = room.units_of(_SHARE_MIB)
    await hold(site, room, "cuda", units, seconds=0, mib=units * room.mib_per_unit - _CONTEXT_MIB)
    pod = await site.ended("cuda")
    steps = await site.lines("cuda")
    needs_driver(site, node, *steps)

    assert pod["status"]["phase"] == "Succeeded", failures(steps) or await site.story("cuda")


async def test_three_players_fit_on_one_card(site: ForeignCluster, node: str) -> None:
    """Three programs that hold 1253 MiB each run on one card at the same time."""
    mib = _PLAYER_MIB + _CONTEXT_MIB
    room = await site.needs(node, pods=_PLAYERS, mib=mib, on_one_card=True)
    units = room.units_of(mib)
    card = room.card_for(units)
    names = [f"player-{number}" for number in range(_PLAYERS)]
    for name in names:
        await hold(site, room, name, units, seconds=_LONG, mib=_PLAYER_MIB, card_uuid=card.uuid)
    for name in names:
        await holds(site, node, name)
    cards = {index_of(await site.pod(name)) for name in names}

    assert len(cards) == 1 or not card.uuid, (
        f"they asked for card {card.index}, and run on cards {', '.join(sorted(cards))}"
    )


async def test_use_beyond_the_booking_gets_an_event(site: ForeignCluster, node: str) -> None:
    """A pod that uses more of its card than it booked gets an event from a device plugin that looks at real use."""
    if not await site.looks_at_usage(node):
        pytest.skip(f"the device plugin of {node} does not look at real use: it has no --usage")
    if not await why_unlimited(site, node):
        pytest.skip(f"the driver of {node} lets no pod use more than it booked")
    try:
        booked = await overbook(site, node, _LONG)
        await holds(site, node, "greedy")
        texts, _ = await site.wait(
            lambda: overuse_and_phase(site, "greedy"),
            lambda seen: bool(seen[0]) or seen[1] in _ENDED,
            f"pod greedy has an event {spec.EVENT_MEMORY_OVERUSE}",
            "greedy",
        )
        assert texts, f"no event {spec.EVENT_MEMORY_OVERUSE} came before the pod ended: {await site.story('greedy')}"
    finally:
        await site.delete("greedy")

    assert f"booked {booked} MiB" in texts[0], f"the event does not name the booking of {booked} MiB: {texts[0]}"


async def test_a_program_gets_no_more_than_its_share(site: ForeignCluster, node: str) -> None:
    """The driver refuses a CUDA program more memory than its pod booked, and a pod beside it runs on."""
    if why := await why_unlimited(site, node):
        room = await site.needs(node)
        await look(site, room, "look", 1)
        driver = str((await part(site, "look", "nvml")).get("driver", "unknown"))
        is_old = driver.partition(".")[0].isdecimal() and int(driver.partition(".")[0]) < _LIMITS_SINCE
        pytest.skip(f"not possible with driver {driver}: R{_LIMITS_SINCE} is the first that limits" if is_old else why)
    booked = await overbook(site, node, 0)
    await site.ended("greedy")
    steps = await site.lines("greedy")
    needs_driver(site, node, *steps)

    errors = [step.get("error") for step in steps if step.get("ok") is False]
    assert errors == ["CUDA_ERROR_OUT_OF_MEMORY"], (
        f"a pod that booked {booked} MiB is not refused a quarter more: {failures(steps) or 'it has that memory'}"
    )
    assert (await site.pod("idle"))["status"]["phase"] == "Running", await site.story("idle")


async def test_the_plugin_restarts_beside_a_running_pod(site: ForeignCluster, node: str) -> None:
    """A pod runs on while its node's device plugin is replaced, and the next pod gets a card."""
    await check_restart(site, node, site.replace_plugin)


async def test_the_kubelet_restarts_beside_a_running_pod(site: ForeignCluster, node: str) -> None:
    """A pod runs on while its node's kubelet restarts, and the next pod gets a card."""
    await check_restart(site, node, site.restart_kubelet)


async def test_a_recording_replays_the_machine(
    request: pytest.FixtureRequest, site: ForeignCluster, node: str, tmp_path: Path
) -> None:
    """Simulated cards with the recording of a machine give every steady answer of NVML that the machine gave."""
    if request.config.getoption("--cluster") != BARE:
        pytest.skip("cards are recorded on the machine itself: python -m e2e machine")
    recording = request.config.stash[VISIT].site.recordings[node]
    again = await machine_recording.replay(recording, tmp_path)

    drivers = recording["driver"], again["driver"]
    assert drivers[0] == drivers[1], f"the machine has driver {drivers[0]}, its recording answers with {drivers[1]}"
    assert steady(again) == steady(recording), f"the recording of {node} gives other answers of NVML than the machine"


async def test_nvml_keeps_the_promises_of_simulated_cards(request: pytest.FixtureRequest, node: str) -> None:
    """The machine's NVML counts, finds, measures and waits as simulated cards do."""
    if request.config.getoption("--cluster") != BARE:
        pytest.skip("NVML is asked on the machine itself: python -m e2e machine")
    done = await machine_recording.conformance()
    if done is None:
        pytest.skip("the machine has no real driver, so simulated cards would be compared with themselves")

    assert done == [], f"on {node}: {'; '.join(done)}"


# Parts of the cases


async def why_unlimited(site: ForeignCluster, node: str) -> str:
    """Why the driver does not limit containers of this node to their share, as far as the node shows; "" if it does."""
    if not site.hides_cards:
        return "processes of this machine are in no container that could be limited"
    conditions = (await site.node(node))["status"].get("conditions") or ()
    shown = next((one for one in conditions if one["type"] == spec.NODE_LIMITS), None)
    if shown is None:
        return f"the device plugin of {node} has no --memory-limit"
    return "" if shown["reason"] in _LIMITING else f"{node} cannot limit memory: {shown['message']}"


async def overbook(site: ForeignCluster, node: str, seconds: float) -> int:
    """Create pod greedy, which asks for a quarter more of a card than it booked; the MiB of its booking.

    Pod idle books the surplus on the same card and leaves it alone, so that no pod of others misses it.
    """
    room = await site.needs(node, pods=2, mib=_BOOKED_MIB, on_one_card=True)
    units = room.units_of(_BOOKED_MIB)
    card, booked = room.card_for(units), units * room.mib_per_unit
    if not card.uuid:
        pytest.skip(f"{node} does not publish the UUIDs of its cards, so no card can be wished for")
    await hold(site, room, "idle", units, seconds=_LONG + site.permissions.seconds, mib=0, card_uuid=card.uuid)
    index = index_of(await site.runs("idle"))
    assert index == str(card.index), f"pod idle asked for card {card.index}, and is on card {index}"
    # With its CUDA context it uses as much as both have booked, at most.
    await hold(site, room, "greedy", units, seconds=seconds, mib=booked + booked // 4, card_uuid=card.uuid)
    return booked


async def check_restart(site: ForeignCluster, node: str, restart: Callable[[str], Awaitable[None]]) -> None:
    """A pod that runs is the same after the restart, and the next pod gets its card and its amounts."""
    room = await site.needs(node, pods=2)
    await hold(site, room, "before", 1, seconds=_LONG, mib=0)
    before = await site.runs("before")
    await restart(node)
    await look_until_admitted(site, room, "after")
    after = await site.pod("before")

    restarts = [one["restartCount"] for one in after["status"]["containerStatuses"]]
    assert after["metadata"]["uid"] == before["metadata"]["uid"], "another pod is in the place of the one that ran"
    assert restarts == [0], f"the containers of the pod that ran were restarted: {glimpse(after)}"
    await check(site, room, "after")


async def look(site: ForeignCluster, room: NodeRoom, name: str, *units: int) -> None:
    """Run a pod of these containers which look around, to its end. Raises AssertionError if it does not end well."""
    await _create(site, room, name, units, "look")
    await check_ended_well(site, name, await site.ended(name))


async def look_until_admitted(site: ForeignCluster, room: NodeRoom, name: str) -> None:
    """As ``look``, but again while the kubelet refuses the pod: it does so until the device plugin has registered."""
    until = asyncio.get_running_loop().time() + site.permissions.seconds
    while True:
        await _create(site, room, name, (1,), "look")
        pod = await site.ended(name)
        if pod["status"].get("reason") != _NOT_ADMITTED or asyncio.get_running_loop().time() > until:
            break
        await site.delete(name)
    await check_ended_well(site, name, pod)


async def check_ended_well(site: ForeignCluster, name: str, pod: Object) -> None:
    """The pod has ended without an error."""
    assert pod["status"]["phase"] == "Succeeded", await site.story(name)


async def hold(
    site: ForeignCluster, room: NodeRoom, name: str, units: int, *, seconds: float, mib: int, card_uuid: str = ""
) -> None:
    """Create a pod that allocates this much through CUDA and holds it for that time; without memory it only waits."""
    arguments = ("allocate", "--mib", mib, "--seconds", seconds) if mib else ("look", "--seconds", seconds)
    await _create(site, room, name, (units,), *arguments, card_uuid=card_uuid)


async def _create(
    site: ForeignCluster, room: NodeRoom, name: str, units: Sequence[int], *arguments: object, card_uuid: str = ""
) -> None:
    carrier = await site.carrier(room.node)
    with unless_refused():
        await site.create(probe_pod(name, room, carrier, units, *arguments, card_uuid=card_uuid))


async def check(site: ForeignCluster, room: NodeRoom, name: str) -> None:
    """The pod is on the node, and its containers' variables are those of its annotation's card."""
    pod: Object = await site.pod(name)
    variables = [
        (await part(site, name, "environment", container.name))["variables"] for container in gpu_containers(pod)
    ]
    uuids = {card.index: card.uuid for card in room.cards if card.uuid}

    found = check_pod(pod, variables, uuids, by_other_means=True)

    check_node(pod, room.node)
    assert found == [], "; ".join(map(str, found))


def check_node(pod: Object, node: str) -> None:
    """The pod is on this node."""
    assert pod["spec"].get("nodeName") == node, f"{glimpse(pod)}: it is not on {node}, which it asked for"


def index_of(pod: Object) -> str:
    """The card in the pod's annotation. Raises AssertionError without one."""
    index = annotations_of(pod).get(spec.POD_INDEX, "")
    assert index.isdecimal(), f"{glimpse(pod)}: its annotation {spec.POD_INDEX} names no card: {index!r}"
    return index


async def part(site: ForeignCluster, pod: str, name: str, container: str = "c0") -> Mapping[str, Any]:
    """One part of what a container that looked around has printed. Raises AssertionError without it."""
    lines = await site.lines(pod, container)
    found = next((line for line in lines if line.get("part") == name), None)
    assert found is not None, f"the log of {pod} has no part {name!r}: {lines}"
    return found


def uuid_of(room: NodeRoom, index: int) -> str:
    """The UUID of a card; skips the case if the node does not publish UUIDs."""
    uuid = next((card.uuid for card in room.cards if card.index == index), "")
    if not uuid:
        pytest.skip(f"{room.node} does not publish the UUIDs of its cards")
    return uuid


def needs_hiding(site: ForeignCluster) -> None:
    """Skip the case if processes are in no container, which might hide cards or fail to."""
    if not site.hides_cards:
        pytest.skip("processes of this machine are in no container, so NVML shows them all cards")


def needs_driver(site: ForeignCluster, node: str, *parts: Mapping[str, Any]) -> None:
    """Skip the case if the node's cards are simulated, and no runtime gives containers a driver."""
    words = [str(one.get(key, "")) for one in parts for key in ("error", "text")]
    if node in site.simulated_nodes and any(_NO_LIBRARY in text for text in words):
        pytest.skip("the cards are simulated, and containers of this cluster get no driver")


async def holds(site: ForeignCluster, node: str, name: str) -> None:
    """Wait until a probe holds its memory or has ended; without a driver that knows CUDA the case is not judged."""
    await site.started(name)

    async def seen() -> tuple[list[Mapping[str, Any]], str]:
        phase = (await site.pod(name))["status"]["phase"]
        return await site.lines(name), phase

    steps, phase = await site.wait(
        seen, lambda now: now[1] in _ENDED or any(map(is_over, now[0])), f"pod {name} holds its memory", name
    )
    needs_driver(site, node, *steps)
    assert not failures(steps), failures(steps)
    assert phase not in _ENDED, f"the pod ended and held no memory: {await site.story(name)}"


async def overuse_and_phase(site: ForeignCluster, name: str) -> tuple[list[str], str]:
    """The events about a pod's overuse, and its phase."""
    return await site.events(name, spec.EVENT_MEMORY_OVERUSE), (await site.pod(name))["status"]["phase"]


def is_over(line: Mapping[str, Any]) -> bool:
    """Does the probe hold memory that it has proved, or did it fail?"""
    return line.get("step") == "verify" or line.get("ok") is False


def failures(lines: Sequence[Mapping[str, Any]]) -> str:
    """The steps of a probe that failed, each with CUDA's error and the hint."""
    facts = ("call", "error", "number", "text", "hint")
    return "; ".join(
        f"step {line['step']}: " + ", ".join(str(line[fact]) for fact in facts if fact in line)
        for line in lines
        if line.get("ok") is False
    )
