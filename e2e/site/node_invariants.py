"""The invariants of nodes that share cards. Pure; each rule yields what breaks its promise, the first line of its docstring."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from e2e import spec
from e2e.checkers.overcommit import shares_or_none
from e2e.site.findings import Finding
from e2e.site.node_cards import Cards, UnreadableError, amount, averaged, described
from e2e.site.picture import Object, Picture, annotations_of, name_of

_UNHEALTHY: Final = "unhealthy-gpu-"
_OURS: Final = (spec.RESOURCE_MEMORY, spec.RESOURCE_COUNT, spec.RESOURCE_SLOT)
# Resources of other plugins that hand out the same cards whole, or shared in another way.
_OTHER_PLUGINS: Final = re.compile(
    r"nvidia\.com/(gpu|mig-).*|volcano\.sh/vgpu-.*|tencent\.com/vcuda-.*|koordinator\.sh/gpu.*|aliyun\.com/gpu"
)


def other_resources(node: Object) -> list[str]:
    """The resources of other plugins that the node offers and that may be the same cards."""
    offered = (node.get("status", {}).get("capacity") or {}).items()
    return sorted(name for name, count in offered if _OTHER_PLUGINS.fullmatch(name) and str(count) != "0")


def cards_of(node: Object) -> Cards | None:
    """The cards that pods are booked on; None if annotation or capacity cannot be read, which is a finding of its own."""
    try:
        return described(node) or averaged(node)
    except UnreadableError:
        return None


def cards_annotation(picture: Picture) -> Iterator[Finding]:
    """The cards annotation of a node can be read, and is of a version that the programs know."""
    for name, node in picture.sharing_nodes.items():
        try:
            described(node)
        except UnreadableError as error:
            todo = "restart the node's device plugin, which writes it; if it is of a newer version, update the extender"
            yield Finding(
                "error", "cards-annotation", f"node {name}", f"{spec.NODE_CARDS} cannot be read: {error}", todo
            )


def capacity(picture: Picture) -> Iterator[Finding]:
    """A node offers as much memory and as many cards as its annotation describes."""
    for name, node in picture.sharing_nodes.items():
        try:
            units, count, slots = (amount(node, one) for one in _OURS)
            amount(node, spec.RESOURCE_MEMORY, "allocatable")
        except UnreadableError as error:
            todo = "restart the node's device plugin and its kubelet, which write it"
            yield Finding("error", "capacity", f"node {name}", str(error), todo)
            continue
        cards = cards_of(node)
        if cards is None or spec.NODE_CARDS not in annotations_of(node):
            continue
        if not (units if cards.mode == "ids" else slots):
            text = f"it describes {len(cards.cards)} cards and offers nothing: no device plugin is registered there"
            todo = f"start the device plugin, or remove the annotation {spec.NODE_CARDS} if sharing was removed from the node"
            yield Finding("error", "stale-annotation", f"node {name}", text, todo)
        elif (units, count) != (cards.units, len(cards.cards)):
            described_ones = f"its annotation describes {cards.units} on {len(cards.cards)}"
            text = f"it offers {units} units on {count} cards, {described_ones}"
            todo = "restart the node's device plugin; if the node has two of them, remove one"
            yield Finding("error", "capacity", f"node {name}", text, todo)


def unhealthy_cards(picture: Picture) -> Iterator[Finding]:
    """No card is unhealthy."""
    banned = {name: _banned(item) for name, item in _unhealthy_maps(picture).items()}
    for name, node in picture.sharing_nodes.items():
        cards = cards_of(node)
        for card in cards.cards.values() if cards else ():
            is_banned = str(card.index) in banned.get(name, ())
            if card.healthy and not is_banned:
                continue
            reason = card.reason or (f"listed in ConfigMap {_UNHEALTHY}{name}" if is_banned else "no reason is given")
            bound = picture.bound_pods.get(name, ())
            on_it = [name_of(pod) for pod in bound if card.index in (shares_or_none(pod) or ())]
            text = f"the card is unhealthy: {reason}" + (f"; on it: {', '.join(on_it)}" if on_it else "")
            todo = "see docs/troubleshooting.md, GPUShareCardUnhealthy: repair the card, or replace it, and restart its pods"
            yield Finding("error", "unhealthy-card", f"node {name} card {card.index}", text, todo)


def over_booked(picture: Picture) -> Iterator[Finding]:
    """The pods of a card book no more memory than it has."""
    for name, node in picture.sharing_nodes.items():
        cards = cards_of(node)
        booked: dict[int, list[tuple[str, int]]] = defaultdict(list)
        for pod in picture.bound_pods.get(name, ()):
            for index, units in (shares_or_none(pod) or {}).items():
                booked[index].append((name_of(pod), units))
        for index, parts in sorted(booked.items()):
            card = cards.cards.get(index) if cards else None
            total = sum(units for _, units in parts)
            if card is not None and total > card.units:
                pods = ", ".join(f"{pod} {units}" for pod, units in sorted(parts))
                text = f"its pods book {total} units, it has {card.units}: {pods}"
                todo = "delete a pod of the card; then find which program bound it without a look at the card"
                yield Finding("error", "over-booked", f"node {name} card {index}", text, todo)


def _unhealthy_maps(picture: Picture) -> dict[str, Object]:
    """The ConfigMaps by which the original bans cards, by node."""
    maps = ((item["metadata"]["name"], item) for item in picture.config_maps or ())
    return {name.removeprefix(_UNHEALTHY): item for name, item in maps if name.startswith(_UNHEALTHY)}


def _banned(config_map: Object) -> set[str]:
    return {word.strip() for word in str((config_map.get("data") or {}).get("gpus", "")).split(",")}
