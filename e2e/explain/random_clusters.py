"""Random clusters and pods, small enough to be filled: a seed is the same one each time."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from e2e import spec
from e2e.builders import booking, gpu_pod, with_slots

Object = dict[str, Any]

MODELS: Final = ("Tesla T4", "NVIDIA A100-SXM4-80GB")
# Wishes that do not make the answer depend on the first node that a scheduler happens to choose.
_WISHES: Final[tuple[dict[str, str], ...]] = (
    {},
    {},
    {},
    {spec.WISH_MODEL: "T4"},
    {spec.WISH_MODEL: "A100"},
    {spec.WISH_POLICY: "spread"},
    {spec.WISH_SPLIT: "whole"},
    {spec.WISH_SPLIT: "2,2"},
)
_LABEL: Final = "case/zone"
# Nodes without a kubelet are tainted sooner or later.
NEVER_READY: Final = [
    {"key": f"node.kubernetes.io/{word}", "operator": "Exists"} for word in ("not-ready", "unreachable")
]
TAINT: Final = {"key": "case/taint", "value": "x", "effect": "NoSchedule"}


@dataclass(frozen=True, slots=True)
class RandomCluster:
    """Nodes, pods that are bound already, and the pod of which as many are asked for as there is room."""

    nodes: list[Object]
    bound: list[Object]
    asked: Object


def random_cluster(seed: int) -> RandomCluster:
    """The cluster of a seed."""
    chance = random.Random(seed)
    # Pods of two containers leave a slot of each card unused, and the sum of a node does not show that.
    slots = chance.choice(((0,), (0, 3, 3, 5)))
    nodes = [_node(f"n{at}-{seed}", chance.choice(slots), chance) for at in range(chance.randint(1, 4))]
    bound = [_bound(f"b{at}", chance.choice(nodes), chance) for at in range(chance.randint(0, 6))]
    return RandomCluster(nodes, bound, _asked(chance, names_slots=len(slots) > 1))


def _node(name: str, slots: int, chance: random.Random) -> Object:
    units = [chance.randint(1, 16) for _ in range(chance.randint(1, 4))]
    model, unhealthy = chance.choice(MODELS), chance.randrange(6)
    amounts = {"cpu": chance.choice(["2", "3", "64"]), "pods": chance.choice(["7", "110", "110"])}
    node = node_of(name, *units, model=model, unhealthy=unhealthy, slots=slots, amounts=amounts)
    node["metadata"]["labels"][_LABEL] = chance.choice("xy")
    node["spec"] = {"taints": [TAINT] if chance.random() < 0.2 else [], "unschedulable": chance.random() < 0.1}
    return node


def node_of(
    name: str,
    *units: int,
    model: str = MODELS[0],
    unhealthy: int | None = None,
    slots: int = 0,
    amounts: Mapping[str, str] | None = None,
) -> Object:
    """A node without a kubelet that has a card for each amount, and one of them lost."""
    cards = [
        {
            "index": at,
            "uuid": f"GPU-{at}-{name}",
            "model": model,
            "mib": of * 1024 + 1023,
            "units": of,
            "slots": slots,
            "healthy": at != unhealthy,
            "reason": "lost" if at == unhealthy else "",
        }
        for at, of in enumerate(units)
    ]
    kind = {"mode": "slots", "unit": "MiB"} if slots else {"mode": "ids", "unit": "GiB"}
    ours = {spec.RESOURCE_MEMORY: str(sum(units)), spec.RESOURCE_COUNT: str(len(units))}
    ours |= {spec.RESOURCE_SLOT: str(slots * len(units))} if slots else {}
    all_amounts = {"cpu": "64", "memory": "64Gi", "pods": "110", **ours, **(amounts or {})}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name},
            "annotations": {spec.NODE_CARDS: json.dumps({"v": 1, "boot": "b", "cards": cards, **kind})},
        },
        "status": {
            "capacity": all_amounts,
            "allocatable": all_amounts,
            "conditions": [{"type": "Ready", "status": "True", "reason": "Case"}],
        },
    }


def _bound(name: str, node: Object, chance: random.Random) -> Object:
    """A pod on one of the cards, which it may over-book, or on none."""
    cards = json.loads(node["metadata"]["annotations"][spec.NODE_CARDS])["cards"]
    card, units = chance.choice(cards), chance.randint(1, 6)
    annotations = booking(units, card["index"], device_units=card["units"]) if chance.random() < 0.9 else {}
    where = node["metadata"]["name"]
    pod = gpu_pod(name, units, bound_to=where, annotations=annotations)
    return with_slots(pod) if card["slots"] else pod


def _asked(chance: random.Random, *, names_slots: bool) -> Object:
    wishes = chance.choice(_WISHES)
    is_split = "2,2" in wishes.values()
    units = 4 if is_split else chance.randint(2, 3 if names_slots else 6)
    second = [1] if names_slots and not is_split else []
    pod = gpu_pod("asked", units - len(second), *second, annotations=wishes)
    pod = with_slots(pod) if names_slots else pod
    pod["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "1"}
    pod["spec"]["tolerations"] = NEVER_READY + ([{"key": TAINT["key"], "operator": "Exists"}] * (chance.random() < 0.3))
    if chance.random() < 0.3:
        pod["spec"]["nodeSelector"] = {_LABEL: "x"}
    return pod


def of_size(pod: Object, name: str, units: int, model: str) -> Object:
    """The same pod with another name and amount, on any card of the model."""
    changed: Object = json.loads(json.dumps(pod))
    changed["metadata"] = {"name": name, "annotations": {spec.WISH_MODEL: model}}
    first, *others = changed["spec"]["containers"]
    first["resources"]["limits"][spec.RESOURCE_MEMORY] = units - len(others)
    return changed


def named(pod: Object, name: str) -> Object:
    """The same pod with another name."""
    return {**pod, "metadata": {**pod["metadata"], "name": name}}
