"""The clusters of bursts: worlds of stand-in kubelets that do not keep the order of bindings, or two given real nodes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Final

from clusters.api.api_client import MERGE_PATCH
from clusters.api.resources import NODES
from clusters.api.waiting import eventually
from clusters.processes.program import Program
from clusters.provider import DEVICE_PLUGIN, Cluster, load_nodes
from clusters.providers import Choices
from clusters.targets import Target, load_target
from e2e import commands, spec
from e2e.bursts.burst_plan import MOST_PODS, NAMESPACES, URGENT, Burst, make_burst
from e2e.bursts.card_faults import Fault, reasons_of
from e2e.bursts.play import SETTLE_SECONDS, Player
from e2e.bursts.published import observed, publishing
from e2e.bursts.world import FOREIGN, SLOTS_OF_A_CARD, NodePlan, World, make_world, units_of_model
from e2e.chaos.actors import grant_guards
from e2e.observer import observing, own_cluster
from e2e.real_kubelets import STAND_INS
from e2e.site.node_cards import amount
from e2e.target_capabilities import options_known

_NODES_FILE: Final = Path(__file__).parents[2] / "clusters" / "simulated" / "bursts.yaml"
# The number of consecutive bursts that share a world.
BURSTS_OF_A_WORLD: Final = 2
# The chance of each disturbance of a request in a world that is disturbed.
_DISTURBANCE: Final = 0.05
# An extender that has not seen the marks of a repair, in a gap of its watch, books a pod on both cards until two audits agree.
_AUDIT_SECONDS: Final = 10


@dataclass(frozen=True, slots=True)
class Venue:
    """The parts of a burst that depend on its cluster."""

    is_real: bool = False
    """Its kubelets are real, and its nodes are given."""
    most_pods: int = MOST_PODS
    settle_seconds: float = SETTLE_SECONDS
    """The longest that a burst may take to settle."""
    speed: float = 1.0
    """How many times as fast as the machine's its clock runs."""

    def world(self, seed: str) -> World:
        """The world of a burst."""
        base, _, number = seed.partition("-")[0].rpartition("/")
        return World() if self.is_real else make_world(base, int(number) // BURSTS_OF_A_WORLD)

    async def burst(self, seed: str, player: Player) -> Burst:
        """The burst of a seed, as it is played here, on a player of its world."""
        sizes = await player.sizes()
        burst = make_burst(
            seed,
            sizes,
            self.most_pods,
            is_real=self.is_real,
            mib_per_unit=player.world.mib_per_unit,
        )
        burst = burst if "wishes" in player.claims else burst.without("splits")
        return burst.without("greedy") if player.world.has_limits else burst


# Waits of minutes in a cluster (the scheduler's back-off, a container's next attempt) must not make a burst long.
_EMBEDDED: Final = Venue(speed=10.0)
# Real containers, of which a small machine starts one or two a second.
_REAL: Final = Venue(is_real=True, most_pods=14, settle_seconds=180.0)


def venue_of(provider: str) -> Venue:
    """The venue for a kind of cluster."""
    if provider not in STAND_INS:
        return _REAL
    return _EMBEDDED if provider == "embedded" else Venue()


@contextlib.asynccontextmanager
async def open_player(provider: str, target: Target, choices: Choices, seed: str) -> AsyncIterator[Player]:
    """A cluster of the burst's world is up while inside."""
    venue = venue_of(provider)
    world = venue.world(seed)
    speed = choices.speed if venue.speed == 1 else venue.speed
    disturbance = _DISTURBANCE if world.is_disturbed and provider == "embedded" else 0.0
    if world.has_slots and target.slots_target:
        target = load_target(target.slots_target, choices.environment)
    else:
        world = replace(world, has_slots=False)
    with tempfile.TemporaryDirectory() as folder, options_known(target):
        world = replace(world, has_limits=world.has_limits and "memory-limit" in target.claims)
        made = [one.made(Path(folder), has_slots=world.has_slots, has_limits=world.has_limits) for one in world.nodes]
        if made and "usage" in target.claims:
            target, made = observed(target, made)
        nodes = [target.spelt(one) for one in made or load_nodes(_NODES_FILE)]
        if world.is_guarded and "guarded" in target.claims:
            target = target.with_extender_options({"guarded": ""})
        if made and "audit-interval" in target.extender.flags:
            target = target.with_extender_options({"audit-interval": f"{_AUDIT_SECONDS}s"})
        choices = replace(choices, speed=speed, disturbance=disturbance)
        async with own_cluster(provider, nodes, target, choices) as cluster:
            await _furnish(cluster, world, has_addresses=provider == "embedded")
            await asyncio.gather(*(_replace_cards(cluster, node, Path(folder)) for node in world.nodes if node.former))
            unhealthy = await _fail_cards(cluster, world) if "cards-annotation" in target.claims else {}
            names = [node.name for node in nodes]
            async with player_on(
                cluster,
                names,
                venue.settle_seconds,
                is_real=venue.is_real,
                target=target,
                unhealthy=unhealthy,
                world=world,
            ) as player:
                yield player


@contextlib.asynccontextmanager
async def player_on(
    cluster: Cluster,
    nodes: Sequence[str],
    settle_seconds: float,
    *,
    is_real: bool,
    target: Target | None = None,
    unhealthy: Mapping[tuple[str, int], Fault] = MappingProxyType({}),
    world: World = World(),  # noqa: B008 - frozen
) -> AsyncIterator[Player]:
    """Plays on a cluster that is there, on all of its nodes with cards, of which ``unhealthy`` may not be used."""
    inspect = partial(_table, cluster, target) if target is not None and target.inspect_or_none is not None else None
    async with contextlib.AsyncExitStack() as stack:
        watched = None
        if inspect is not None and target is not None and "explain" in target.claims:
            watched = await stack.enter_async_context(_watching(cluster, target))
        unit = world.mib_per_unit
        observers = [await stack.enter_async_context(observing(cluster, one, mib_per_unit=unit)) for one in NAMESPACES]
        published = None
        if target is not None and "usage" in target.claims and world.nodes:
            published = await stack.enter_async_context(publishing(observers[0], target, nodes))
        player = Player(
            observers,
            nodes,
            settle_seconds=settle_seconds,
            is_real=is_real,
            inspect=inspect,
            unhealthy=unhealthy,
            claims=frozenset(target.claims) if target is not None else frozenset(),
            watched=watched,
            world=world,
            published=published,
        )
        stack.push_async_callback(player.clear)
        yield player


async def _furnish(cluster: Cluster, world: World, *, has_addresses: bool) -> None:
    """Write the metadata of another program on the nodes, and create the class of urgent pods.

    A real API server asks a kubelet for logs at the first address.
    """
    for node in world.nodes:
        await cluster.api.patch(NODES, node.name, {"metadata": FOREIGN}, content_type=MERGE_PATCH)
        status = {"status": node.status(has_addresses=has_addresses)}
        await cluster.api.patch(NODES, node.name, status, subresource="status", content_type=MERGE_PATCH)
    if world.is_guarded:
        await grant_guards(cluster.api)
    if world.nodes:
        kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": URGENT}}
        await cluster.api.create(kind | {"value": 1000, "preemptionPolicy": "Never"})


async def _replace_cards(cluster: Cluster, node: NodePlan, folder: Path) -> None:
    """The node gets other cards while its plugin is away. One of the old ones is unhealthy, unless there is only that one."""
    if len(node.former) > 1:
        await cluster.fake_nvml(node.name, "xid", "0", "79")
        await eventually(partial(_reasons, cluster, node.name), lambda seen: seen[0] != "", f"{node.name} shows it")
    await cluster.kill(DEVICE_PLUGIN, node.name)
    await cluster.fake_nvml(node.name, "init", "--box", str(node.box(folder)), "--seed", f"{node.name} later")
    await cluster.launch(DEVICE_PLUGIN, node.name)


async def _reasons(cluster: Cluster, node: str) -> dict[int, str]:
    return reasons_of(await cluster.api.get(NODES, node))


async def _fail_cards(cluster: Cluster, world: World) -> dict[tuple[str, int], Fault]:
    """Cards fail, one after the other; (node, index) of each, when the cluster offers it no more."""
    unhealthy, resource = list[tuple[str, int]](), spec.RESOURCE_SLOT if world.has_slots else spec.RESOURCE_MEMORY
    for node in world.nodes:
        for index in node.unhealthy:
            await cluster.fake_nvml(node.name, "xid", str(index), "79")
            unhealthy.append((node.name, index))
            gone = {one for name, one in unhealthy if name == node.name}
            left = [model for place, model in enumerate(node.models) if place not in gone]
            # Slots mode takes slots away, and no memory.
            units = [SLOTS_OF_A_CARD if world.has_slots else units_of_model(model, node.driver) for model in left]
            await eventually(
                partial(_offered, cluster, node.name, resource), sum(units).__eq__, f"{node.name} offers {units}"
            )
    return dict.fromkeys(unhealthy, Fault("Xid 79", is_advised=True))


async def _offered(cluster: Cluster, node: str, resource: str) -> int:
    return amount(await cluster.api.get(NODES, node), resource, "allocatable")


async def _table(cluster: Cluster, target: Target) -> str:
    argv, environment = await _inspect(cluster, target, target.inspect.account)
    return (await commands.run(*argv, variables=environment)).said


@contextlib.asynccontextmanager
async def _watching(cluster: Cluster, target: Target) -> AsyncIterator[Callable[[], str]]:
    """``inspect --watch`` runs while inside, for an administrator, which may watch; what it has printed so far.

    Without that right it lists again, after half a minute in the end.
    """
    argv, environment = await _inspect(cluster, target, account="")
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "watched"
        program = Program("inspect --watch", [*argv, "--watch"], {**os.environ, **environment}, log)
        await program.launch(lambda: _is_there(log))
        try:
            yield log.read_text
        finally:
            await program.stop()


async def _is_there(log: Path) -> bool:
    return bool(log.read_text())


async def _inspect(cluster: Cluster, target: Target, account: str) -> tuple[list[str], dict[str, str]]:
    argv, environment = target.inspect.command(kubeconfig=str(await cluster.kubeconfig_of(account)))
    return argv, {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", **environment}
