"""A fleet of nodes in both modes: pods that name no slot, pods that do, and the policy that adds the slot to the first."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from clusters.api import admission_policies
from clusters.api.api_client import Object
from clusters.api.resources import MUTATING_ADMISSION_POLICIES, NODES
from clusters.api.waiting import eventually
from clusters.provider import Cluster, NodeSpec
from clusters.targets import Target
from e2e import spec
from e2e.builders import gpu_pod
from e2e.checkers.pod_requests import card_of
from e2e.observer import Observer, OwnCluster, ensure_open
from e2e.scenarios.test_unhealthy_card import heal
from e2e.site.node_cards import amount, described

# Two cards of 81,920 MiB with two slots each, beside a T4 of 14 GiB.
_NODES = (
    NodeSpec("exact", box="a100x8", plugin_options={"mode": "slots", "slots": "2"}),
    NodeSpec("whole", box="t4x1"),
)
_XID = "79"

pytestmark = [
    pytest.mark.needs("slots"),
    pytest.mark.minutes_on_kind(5, "a cluster of its own, with a node in each mode"),
]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def fleet(own: OwnCluster, slots_target: Target) -> AsyncIterator[Cluster]:
    """One node in slots mode, one in ids mode; no policy. (For a target that has both modes.)"""
    assert slots_target.programs
    async with own(_NODES) as cluster:
        yield cluster


@pytest_asyncio.fixture(loop_scope="session")
async def seen(fleet: Cluster) -> AsyncIterator[Observer]:
    """The default namespace of that fleet, emptied after the case."""
    observer = Observer(fleet, "default")
    await ensure_open(fleet.api, "default")
    try:
        yield observer
    finally:
        await observer.clear()


def slotted(pod: dict[str, Any]) -> dict[str, Any]:
    """The pod with a slot for each container, as one writes it before 1.36."""
    for container in pod["spec"]["containers"]:
        container["resources"]["limits"][spec.RESOURCE_SLOT] = "1"
    return pod


async def test_a_pod_without_slots_goes_to_nodes_in_ids_mode_only(seen: Observer) -> None:
    """A node in slots mode refuses the pod: its containers would get no variables there and see every card."""
    await seen.create(gpu_pod("old", 3), gpu_pod("lost", 3, node="exact"))
    (old,) = await seen.running("old")

    assert old["spec"]["nodeName"] == "whole"
    await seen.waits_because("lost", "without exactly one aliyun.com/gpu-slot")


async def test_a_pod_that_names_its_slots_goes_to_either_node(seen: Observer) -> None:
    """In ids mode the slot is there and means nothing; the variables are those of the memory."""
    here, there = await seen.run(
        slotted(gpu_pod("here", 3, node="whole")), slotted(gpu_pod("there", 20_001, 8_138, node="exact"))
    )
    (mine,) = await seen.variables(here)
    first, second = await seen.variables(there)

    assert (mine["ALIYUN_COM_GPU_MEM_CONTAINER"], mine["ALIYUN_COM_GPU_MEM_DEV"]) == ("3", "14")
    assert (first["ALIYUN_COM_GPU_MEM_CONTAINER"], second["ALIYUN_COM_GPU_MEM_CONTAINER"]) == ("20001", "8138")
    assert first["ALIYUN_COM_GPU_MEM_DEV"] == "81920"
    uuid = seen.uuids("exact")[int(there["metadata"]["annotations"][spec.POD_INDEX])]
    assert {first["NVIDIA_VISIBLE_DEVICES"], second["NVIDIA_VISIBLE_DEVICES"]} == {uuid}


async def test_card_without_a_slot_takes_no_pod_whatever_its_memory(seen: Observer) -> None:
    """Sixteen slots on eight cards: the seventeenth small pod waits, and one of three containers fits on no card at all."""
    await seen.create(slotted(gpu_pod("three", 5, 5, 5, node="exact")))
    await seen.waits_because("three", "no GPU of the node has a slot for each container")
    names = [f"small-{number}" for number in range(16)]
    pods = await seen.run(*(slotted(gpu_pod(name, 5, node="exact")) for name in names))
    given = [pod["metadata"]["annotations"][spec.POD_INDEX] for pod in pods]
    assert sorted(given) == sorted([*map(str, range(8))] * 2)

    await seen.create(slotted(gpu_pod("late", 5, node="exact")))
    await seen.waits_because("late", "gpu-slot")
    await seen.delete("small-3", 0)
    await seen.running("late")


async def test_an_unhealthy_card_shows_in_its_slots_alone(seen: Observer) -> None:
    """A lower amount would make a kubelet that restarts refuse running pods; the extender passes the card over."""
    (before,) = await seen.run(slotted(gpu_pod("before", 81_920, node="exact")))
    index = card_of(before)
    await seen.cluster.fake_nvml("exact", "xid", str(index), _XID)

    def is_unhealthy(node: Object) -> bool:
        cards = described(node)
        return cards is not None and not cards.cards[index].healthy

    try:
        await eventually(
            lambda: seen.cluster.api.get(NODES, "exact"), is_unhealthy, "the card is published as unhealthy"
        )
        node = await eventually(
            lambda: seen.cluster.api.get(NODES, "exact"),
            lambda node: amount(node, spec.RESOURCE_SLOT, "allocatable") == 15,
            "the slot that no pod holds is gone",
        )
        assert amount(node, spec.RESOURCE_MEMORY, "allocatable") == 8 * 81_920
        others = await seen.run(*(slotted(gpu_pod(f"after-{number}", 81_920, node="exact")) for number in range(7)))
        assert str(index) not in {pod["metadata"]["annotations"][spec.POD_INDEX] for pod in others}
    finally:
        await heal(seen, index, "exact")


async def test_the_policy_makes_pods_unchanged_fit_for_both(seen: Observer, slots_target: Target) -> None:
    """A pod that asks for gpu-mem alone runs on either node, and asks for a slot as it is stored."""
    policies, probe = slots_target.policy_manifests(), slots_target.policy_probe
    if not await admission_policies.install(seen.cluster.api, policies, probe):
        pytest.skip("this API server is older than 1.36 and has no MutatingAdmissionPolicy")
    try:
        await seen.create(gpu_pod("there", 33, node="exact"), gpu_pod("here", 3, node="whole"))
        for pod in await seen.running("there", "here"):
            assert pod["spec"]["containers"][0]["resources"]["limits"][spec.RESOURCE_SLOT] == "1"
        assert await seen.cluster.api.list(MUTATING_ADMISSION_POLICIES)
    finally:
        await admission_policies.remove(seen.cluster.api, policies, probe)
