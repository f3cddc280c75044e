"""Eight cards of 81,920 MiB in exact MiB."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio

from clusters.provider import load_nodes
from clusters.providers import Choices, make_cluster
from clusters.resources import NODES, PODS
from clusters.targets import load_target
from clusters.waiting import eventually
from e2e import spec
from e2e.builders import gpu_pod
from e2e.observer import Observer

_NODES: Final = Path(__file__).parents[2] / "clusters" / "simulated" / "a100x8.yaml"
NODE: Final = "big"
CARDS: Final = 8
MIB: Final = 81_920
# Five odd amounts for each card; the last is what is left of it.
AMOUNTS: Final = (20_001, 20_001, 8_138, 13_777)
_NUMBERS = itertools.count(1)

pytestmark = pytest.mark.timeout(300)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def slots_cluster(request: pytest.FixtureRequest, choices: Choices) -> AsyncIterator[Any]:
    """Our programs in slots mode, with the policy that adds slots to pods, where the API server knows policies."""
    if request.config.getoption("--target") != "gpushare":
        pytest.skip("slots mode is of our own programs; the target is another")
    cluster = make_cluster(
        request.config.getoption("--cluster"), load_nodes(_NODES), load_target("gpushare-slots"), choices
    )
    await cluster.start()
    try:
        yield cluster
    finally:
        await cluster.stop()


@pytest_asyncio.fixture(loop_scope="session")
async def slots(slots_cluster: Any) -> AsyncIterator[Observer]:
    """A namespace of the case's own; a unit is a MiB."""
    namespace = f"slots-{next(_NUMBERS)}"
    await slots_cluster.api.ensure_namespace(namespace)
    observer = Observer(slots_cluster, namespace, mib_per_unit=1)
    await eventually(observer.accounts, lambda names: "default" in names, f"{namespace} has its ServiceAccount")
    try:
        yield observer
    finally:
        await observer.close()


def slot_pod(name: str, *mib: int, **more: Any) -> dict[str, Any]:
    """A pod that names its slots: what the policy would do, done by hand, so that old API servers serve, too."""
    pod = gpu_pod(name, *mib, **more)
    for container in pod["spec"]["containers"]:
        container["resources"]["limits"][spec.RESOURCE_SLOT] = 1
    return pod


async def test_forty_pods_fill_eight_cards_to_the_mib(slots: Observer) -> None:
    """40 pods of odd sizes leave nothing; the 41st, of 1 MiB, waits for that reason; no card is over-booked."""
    names = []
    for card in range(CARDS):
        for number, mib in enumerate((*AMOUNTS, MIB - sum(AMOUNTS))):
            name = f"p-{card}-{number}"
            await slots.create(slot_pod(name, mib))
            # The smallest free block that holds it is on the card of the one before: one after the other fills a card.
            await _bound(slots, name)
            names.append(name)
    await slots.running(*names)
    await slots.create(slot_pod("too-much", 1))
    await slots.waits_because("too-much", "nsufficient")

    pods = await slots.check_right_cards(*names)
    await slots.check_books()
    booked: dict[str, int] = {}
    for pod in pods:
        index = pod["metadata"]["annotations"][spec.POD_INDEX]
        booked[index] = booked.get(index, 0) + int(pod["metadata"]["annotations"][spec.POD_UNITS])
    assert booked == {str(card): MIB for card in range(CARDS)}
    assert {pod["metadata"]["annotations"][spec.POD_DEVICE_UNITS] for pod in pods} == {str(MIB)}


async def test_forty_pods_at_once(slots: Observer) -> None:
    """Equal and unequal ones in any order: whoever runs is on its card, and told its own amount."""
    sizes = [AMOUNTS[number % len(AMOUNTS)] + number % 3 for number in range(40)]
    names = [f"p-{number:02}" for number in range(40)]
    await slots.create(*(slot_pod(name, size) for name, size in zip(names, sizes, strict=True)))
    total = sum(sizes)
    assert total < CARDS * MIB

    async def settled() -> int:
        pods = await slots.pods()
        assert all(pod["status"].get("phase") != "Failed" for pod in pods), [pod["status"] for pod in pods]
        return sum(1 for pod in pods if pod["status"].get("phase") == "Running")

    await eventually(settled, lambda running: running >= 36, "nearly all run: what is left is in pieces")
    running = [pod["metadata"]["name"] for pod in await slots.pods() if pod["status"].get("phase") == "Running"]
    await slots.check_right_cards(*running)
    await slots.check_books()


async def test_a_pod_of_two_containers_takes_two_slots(slots: Observer) -> None:
    """One id each, both on the pod's card; the node's memory is the kubelet's to count, and ours to write."""
    await slots.create(slot_pod("two", 8_139, 20_003))
    await slots.running("two")

    (pod,) = await slots.check_right_cards("two")
    assert [one[spec.ENV_CONTAINER_UNITS] for one in await slots.variables(pod)] == ["8139", "20003"]
    node = await slots.cluster.api.get(NODES, NODE)
    assert node["status"]["capacity"][spec.RESOURCE_MEMORY] == str(CARDS * MIB)


async def test_the_policy_adds_the_slot(slots: Observer) -> None:
    """A pod written for gpu-mem alone runs, where the API server knows such policies; an old one's pods name the slot."""
    version = await slots.cluster.api.request("GET", "/version")
    if int(version["minor"].rstrip("+")) < 36:
        pytest.skip(f"MutatingAdmissionPolicy came with Kubernetes 1.36; this is 1.{version['minor']}")
    await slots.create(gpu_pod("plain", 20_001))
    (pod,) = await slots.running("plain")

    assert pod["spec"]["containers"][0]["resources"]["limits"][spec.RESOURCE_SLOT] == "1"
    await slots.check_right_cards("plain")


async def test_books_survive_restarts_of_everything(slots: Observer) -> None:
    """The amount stays while the slots are away; pods run on; what comes afterwards fits beside them."""
    await slots.create(*(slot_pod(f"half-{number}", MIB // 2 + 1) for number in range(CARDS)))
    halves = [f"half-{number}" for number in range(CARDS)]
    await slots.running(*halves)
    await slots.cluster.kill("device_plugin", NODE)
    await slots.cluster.restart_kubelet(NODE)
    await slots.cluster.launch("device_plugin", NODE)
    await slots.create(slot_pod("rest", MIB // 2 - 1), slot_pod("too-much", MIB // 2))

    await slots.running("rest", *halves)
    await slots.waits_because("too-much", "nsufficient")
    await slots.check_right_cards("rest", *halves)
    await slots.check_books()


async def _bound(slots: Observer, name: str) -> None:
    async def node() -> str:
        return str((await slots.cluster.api.get(PODS, name, slots.namespace))["spec"].get("nodeName", ""))

    await eventually(node, lambda seen: seen == NODE, f"{name} is bound")
