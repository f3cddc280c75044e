"""A node changes to slots mode or to another memory unit: the plugin waits for the pods that run there, then goes on alone."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio

from clusters.api.resources import EVENTS, NODES
from clusters.api.waiting import eventually
from clusters.kubelet.kubelet import Kubelet
from clusters.kubelet.kubelet_cards import Cards
from clusters.kubelet.machine import Timings
from clusters.local_cluster import LocalCluster
from clusters.processes.program import Program
from clusters.processes.scratch import scratch_folder
from clusters.provider import Cluster
from clusters.simulated_node import SimulatedNode, environment_of_programs
from clusters.targets import Target
from e2e import spec
from e2e.builders import gpu_pod
from e2e.kubelet.node_under_test import make_kubelet
from e2e.observer import Observer
from e2e.target_capabilities import options_known
from fake_nvml.box import Box
from fake_nvml.state import State

NODE = "changes-to-slots"
Options = dict[str, str]
GIB: Options = {"memory_unit": "GiB"}
MIB: Options = {"memory_unit": "MiB", "max_ids": "40000"}

pytestmark = [
    pytest.mark.needs("slots"),
    pytest.mark.stand_in_only("it needs a node without a plugin, and five minutes of a kubelet's time in a second"),
]


class SeparateNode:
    """One node beside the cluster's: its kubelet, its cards, and plugins to start on it."""

    def __init__(self, cluster: LocalCluster, kubelet: Kubelet, simulated: SimulatedNode) -> None:
        self.cluster = cluster
        self.kubelet = kubelet
        self.simulated = simulated

    @contextlib.asynccontextmanager
    async def serving(
        self, target: Target, until: Callable[[], Awaitable[bool]], **options: str
    ) -> AsyncIterator[Program]:
        """The device plugin of a target with these options is there inside, and has come so far."""
        with options_known(target):
            words = target.device_plugin.words({name.replace("_", "-"): text for name, text in options.items()})
        account = await self.cluster.kubeconfig_of(target.device_plugin.account, NODE)
        plugin = self.simulated.device_plugin(target, account, words)
        try:
            await plugin.launch(until)
            yield plugin
        finally:
            await plugin.stop()

    async def offers_memory(self) -> bool:
        """Does the node offer any?"""
        return (await self.amounts()).get(spec.RESOURCE_MEMORY, "0") != "0"

    async def has_warned(self) -> bool:
        """Is there an event about the memory that the kubelet owns?"""
        return bool(await self.warnings())

    async def amounts(self) -> dict[str, str]:
        """The node's allocatable of each resource."""
        node = await self.cluster.api.get(NODES, NODE)
        return {name: str(text) for name, text in (node["status"].get("allocatable") or {}).items()}

    async def shows(self, **wanted: str) -> None:
        """Wait until these amounts are there: ``mem``, ``count``, ``slot``."""
        names = {"mem": spec.RESOURCE_MEMORY, "count": spec.RESOURCE_COUNT, "slot": spec.RESOURCE_SLOT}
        expected = {names[key]: text for key, text in wanted.items()}
        await eventually(self.amounts, lambda seen: expected.items() <= seen.items(), f"{NODE} shows {expected}")

    async def warnings(self, reason: str = "GPUShareResourceOwned", about: str = "") -> list[Any]:
        """Events about the node that its plugin wrote."""
        found = await self.cluster.api.list(EVENTS, field_selector=f"involvedObject.name={NODE}")
        return [event for event in found if event.get("reason") == reason and about in event["message"]]


@pytest.fixture
def timings() -> Timings:
    """A real kubelet's; a case may say otherwise."""
    return Timings()


@pytest_asyncio.fixture(loop_scope="session")
async def site(cluster: Cluster, timings: Timings) -> AsyncIterator[SeparateNode]:
    """A node with one T4."""
    if not isinstance(cluster, LocalCluster):
        pytest.skip("the kubelets of this cluster are not ours")
    async with contextlib.AsyncExitStack() as stack:
        folder = stack.enter_context(scratch_folder())
        simulated = SimulatedNode(NODE, folder, environment_of_programs(os.environ))
        state = State.create(simulated.state_file, Box.load("t4x1", seed=NODE, driver=None))
        stack.callback(state.close)
        kubelet = await make_kubelet(cluster, NODE, folder, Cards(state), timings, stack)
        await kubelet.start()
        stack.push_async_callback(cluster.api.delete_node, NODE)
        stack.push_async_callback(kubelet.stop)
        yield SeparateNode(cluster, kubelet, simulated)


async def test_kubelet_that_owns_the_memory_is_reported_and_awaited(
    site: SeparateNode, target: Target, slots_target: Target
) -> None:
    """The plugin waits and announces nothing while the kubelet owns the memory.

    The event on the Node has the remedy, and the remedy is enough.
    """
    async with site.serving(target, site.offers_memory):
        # Two resources, each with a registration of its own: the slots may be there a moment later.
        await site.shows(mem="14", count="1", slot="14")

    async with site.serving(slots_target, site.has_warned) as slots:
        await site.shows(mem="0", slot="0")
        (event,) = await site.warnings()
        for word in ("kubelet_internal_checkpoint", "drain", "stop the kubelet", "move", "start the kubelet"):
            assert word in event["message"]
        assert slots.pid is not None

        await site.kubelet.restart(lose_checkpoint=True)
        # In MiB, to the last one: whole GiB would lose a part of the card.
        total = str(_memory_of(site))
        await site.shows(mem=total, count="1", slot="48")
        # It stays: the kubelet does not own it any more, and after a restart of its own neither.
        await site.kubelet.restart()
        await site.shows(mem=total, count="1", slot="48")


@pytest.mark.parametrize("timings", [Timings().scaled(0.04)], ids=["25 times as fast"])
async def test_a_kubelet_that_forgets_by_itself_is_enough(
    site: SeparateNode, target: Target, slots_target: Target
) -> None:
    """A kubelet without pods lets go of the memory five minutes after its plugin has gone, so no person has to act."""
    async with site.serving(target, site.offers_memory):
        pass
    async with site.serving(slots_target, site.has_warned):
        await site.shows(mem=str(_memory_of(site)), count="1", slot="48")


def _memory_of(site: SeparateNode) -> int:
    (card,) = site.simulated.cards()
    return int(card["memory"]["total_mib"])


@pytest.mark.parametrize(
    ("before", "after", "units", "total"),
    [
        (GIB, MIB, 13, "15079"),
        (MIB, GIB, 14000, "14"),
        ({"memory_unit": "256MiB"}, GIB, 50, "14"),
    ],
    ids=["GiB to MiB", "MiB to GiB", "256MiB to GiB"],
)
async def test_a_node_keeps_its_unit_until_its_pods_have_ended(
    site: SeparateNode, observer: Observer, target: Target, before: Options, after: Options, units: int, total: str
) -> None:
    """Pods that run hold their memory, and the node serves the new unit once the last of them has ended."""
    async with site.serving(target, site.offers_memory, **before):
        await site.shows(count="1")
        await observer.run(gpu_pod("former", units, node=NODE))

    async def has_warned() -> bool:
        return bool(await site.warnings("GPUShareUnitInUse", f"{observer.namespace}/former"))

    async with site.serving(target, has_warned, **after):
        event = (await site.warnings("GPUShareUnitInUse", f"{observer.namespace}/former"))[0]
        for word in (before["memory_unit"], after["memory_unit"], "Drain"):
            assert word in event["message"]
        await site.shows(mem="0", count="1")
        assert (await observer.pod("former"))["status"]["phase"] == "Running"

        await observer.delete("former", grace_seconds=0)
        await site.shows(mem=total, count="1")
        await observer.run(gpu_pod("later", 1, node=NODE))
