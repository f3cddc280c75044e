"""The cluster on which bursts play on stand-in kubelets, by a seed. Real kubelets have given nodes. Pure."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import yaml

from clusters.provider import NodeSpec
from e2e import spec
from e2e.bursts.card_faults import COOL_DOWN_SECONDS
from fake_nvml.box import catalogue
from fake_nvml.core.drivers import branch
from fake_nvml.eras import RECOVERY_ACTION_SINCE
from fake_nvml.fake_nvml_errors import CatalogueError

# Metadata of another program on nodes and pods. Our programs must leave it as it is, which run_judge.py judges at each write.
FOREIGN: Final[Mapping[str, Any]] = {
    "annotations": {"example.com/note": "of another, ALIYUN_COM_GPU_MEM_IDX: 7"},
    "labels": {"example.com/team": "another"},
    "finalizers": ["example.com/hold"],
}
FOREIGN_RESOURCE: Final = "example.com/widgets"
FOREIGN_AMOUNT: Final = "7"
_DRIVERS: Final = ("418.87", "450.80", "470.57", "510.47", "535.104", "550.54", "570.124", "580.65")
# The options of a device plugin that limits.
LIMITED: Final[Mapping[str, str]] = {"memory-limit": "driver", "cgroup-root": "{cgroup_root}"}
# One that limits what containers hold of a card.
_LIMITING: Final = "615.71"
_FEW, _MANY = (1, 8), (9, 16)
_MOST_NODES: Final = 4
# Each third world is one node with more than eight cards.
_LARGE: Final = 3
# Beyond this number of ids on a node a call of its kubelet takes long, which a thousand bursts would feel.
_MOST_UNITS: Final = 400
# The chance that a node has cards that fail, of which no more than two do, and that its largest is one of them.
_UNHEALTHY, _MOST_UNHEALTHY, _LARGEST = 0.4, 2, 0.5
# More than the containers of a burst.
SLOTS_OF_A_CARD: Final = 64
# Seconds within which a kubelet admits equal pods in any order, which a device plugin has to bear.
_SHUFFLE: Final = 0.1
# The chance that the cards of a node are replaced by others, before its pods come.
_REPLACED: Final = 0.2
# The chances of each trait of a world.
_DISTURBED, _GUARDED, _FAILS, _SLOTS, _USED, _LIMITS = 0.4, 0.4, 0.4, 0.25, 0.3, 0.4
_ADDRESSES: Final = (
    ("Hostname", "{node}"),
    ("ExternalIP", "203.0.113.9"),
    ("ExternalIP", "2001:db8::9"),
    ("InternalIP", "127.0.0.1"),
    ("InternalIP", "192.0.2.9"),
    ("InternalDNS", "{node}.example.com"),
)


@dataclass(frozen=True, slots=True)
class NodePlan:
    """One node: the model of each card, the driver, its addresses, in their order, and the cards that have failed.

    ``former`` are the models that it has at first; they are replaced while its plugin is away.
    """

    name: str
    models: tuple[str, ...]
    driver: str
    addresses: tuple[tuple[str, str], ...]
    unhealthy: tuple[int, ...] = ()
    former: tuple[str, ...] = ()

    def made(self, folder: Path, *, has_slots: bool = False, has_limits: bool = False) -> NodeSpec:
        """The node to make; its boxes are files in the folder."""
        for path, models in ((self.box(folder), self.models), (folder / f"{self.name}-former.yaml", self.former)):
            path.write_text(yaml.safe_dump({"driver": self.driver, "cards": [{"model": one} for one in models]}))
        options = {"cool-down": f"{COOL_DOWN_SECONDS:g}s"} | ({"slots": str(SLOTS_OF_A_CARD)} if has_slots else {})
        options |= LIMITED if has_limits else {}
        return NodeSpec(
            self.name,
            str(path if self.former else self.box(folder)),
            plugin_options=options,
            admission_shuffle=_SHUFFLE,
        )

    def box(self, folder: Path) -> Path:
        """The file of the cards that it has in the end."""
        return folder / f"{self.name}.yaml"

    @property
    def knows_advice(self) -> bool:
        """Does its driver tell what recovers a card?"""
        return branch(self.driver) >= RECOVERY_ACTION_SINCE

    def status(self, *, has_addresses: bool) -> dict[str, Any]:
        """The part of its status that others write."""
        addresses = [{"type": kind, "address": address} for kind, address in self.addresses]
        return {"capacity": {FOREIGN_RESOURCE: FOREIGN_AMOUNT}} | ({"addresses": addresses} if has_addresses else {})


@dataclass(frozen=True, slots=True)
class World:
    """The nodes, none if they are given, and what else differs from cluster to cluster."""

    nodes: tuple[NodePlan, ...] = ()
    is_disturbed: bool = False
    """The API server loses answers, and more (``Choices.disturbance``)."""
    is_guarded: bool = False
    """The extender reserves cards as if there were other extenders."""
    fails_late: bool = False
    """In each burst cards fail under pods, and recover."""
    has_slots: bool = False
    """Its nodes are in slots mode, in exact MiB."""
    hides_use: bool = False
    """In each burst NVML does not know a card's processes for a while."""
    has_limits: bool = False
    """The driver of its nodes limits each container to its share."""

    @property
    def mib_per_unit(self) -> int:
        """The unit of its cards."""
        return 1 if self.has_slots else spec.MIB_PER_UNIT


def make_world(seed: str, number: int) -> World:
    """One to four nodes of one to eight cards each, or one of nine to sixteen, of mixed sizes and drivers."""
    rng = random.Random(f"world {seed}/{number}")
    counts, places = (_MANY, 1) if number % _LARGE == 0 else (_FEW, rng.randint(1, _MOST_NODES))
    # A number of its own, so that the other worlds of a seed stay.
    has_limits = random.Random(f"limits {seed}/{number}").random() < _LIMITS
    nodes = tuple(_node(rng, f"w{place}", counts, _LIMITING if has_limits else "") for place in range(places))
    traits = (rng.random() < chance for chance in (_DISTURBED, _GUARDED, _FAILS, _SLOTS, _USED))
    return replace(World(nodes, *traits), has_limits=has_limits)


def units_of_model(model: str, driver: str, mib_per_unit: int = spec.MIB_PER_UNIT) -> int:
    """The units of a card under a driver; 0 if that driver does not know it, or not its memory."""
    try:
        return catalogue()[model].memory_mib(driver) // mib_per_unit
    except CatalogueError:
        return 0


def _node(rng: random.Random, name: str, counts: tuple[int, int], driver: str) -> NodePlan:
    driver, count = (driver or rng.choice(_DRIVERS)), rng.randint(*counts)
    known = [model for model in sorted(catalogue()) if 0 < units_of_model(model, driver) * count <= _MOST_UNITS]
    kinds = rng.sample(known, min(len(known), rng.randint(1, 3)))
    models = tuple(rng.choice(kinds) for _ in range(count))
    addresses = [(kind, address.format(node=name)) for kind, address in _ADDRESSES]
    rng.shuffle(addresses)
    unhealthy = rng.sample(range(count), rng.randint(1, min(count - 1, _MOST_UNHEALTHY))) if count > 1 else []
    if unhealthy and rng.random() < _LARGEST:
        # Without it a pod of its size finds no card that any pod's end would free.
        largest = max(range(count), key=lambda place: units_of_model(models[place], driver))
        unhealthy = list({largest, *unhealthy[1:]})
    unhealthy = unhealthy if rng.random() < _UNHEALTHY else []
    former = tuple(rng.choice(known) for _ in range(rng.randint(*counts))) if rng.random() < _REPLACED else ()
    return NodePlan(name, models, driver, tuple(addresses), tuple(unhealthy), former)
