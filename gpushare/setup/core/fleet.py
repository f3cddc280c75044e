"""The nodes that share cards: which plugin each has, by what it publishes, and the pods that hold its memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from gpushare import wire
from gpushare.errors import InvalidQuantityError
from gpushare.manifests import Node, Pod
from gpushare.model.allocation import Allocation, read_allocation
from gpushare.model.node import (
    Booking,
    NodeInfo,
    capacity,
    lay_out,
    published_cards,
    read_devices,
    unit_mib,
    unit_of_size,
)
from gpushare.model.pod import container_request, is_finished, pod_request, was_started

_LABEL = "gpushare"


class Plugin(StrEnum):
    """The device plugin of a node."""

    ORIGINAL = "the original's plugin"
    OURS = "gpushare's plugin"
    NONE = "no plugin"


@dataclass(frozen=True, slots=True)
class Holder:
    """A bound pod that asks for card memory and has not ended.

    ``allocation`` is None if its annotations name no card; ``problem`` is why they cannot be read. ``is_ours``: gpushare's extender
    bound it. ``app_units`` is the sum over its containers without init containers, which is all that the original counts.
    """

    name: str
    units: int
    app_units: int
    allocation: Allocation | None
    problem: str | None
    is_ours: bool
    is_started: bool

    @property
    def shares(self) -> tuple[tuple[int, int], ...]:
        """The units of each card, by its index."""
        return self.allocation.shares if self.allocation is not None else ()


@dataclass(frozen=True, slots=True)
class FleetNode:
    """One node. ``average`` is total ÷ count, which the original takes for each card; ``unit`` is in MiB, 0 if not known.

    ``is_described``: the cards annotation is there, whether it is valid or was left behind.
    """

    name: str
    plugin: Plugin
    unit: int
    average: int
    info: NodeInfo
    holders: tuple[Holder, ...]
    is_described: bool

    @property
    def sizes(self) -> tuple[int, ...]:
        """Units of each card, by index."""
        return tuple(device.total for device in self.info.devices)


def fleet_of(nodes: Iterable[Node], pods: Iterable[Pod]) -> tuple[FleetNode, ...]:
    """The nodes that offer card memory, are labelled to, or have pods that hold some; by name."""
    by_node: dict[str, list[tuple[Holder, Booking]]] = {}
    for pod in pods:
        if pod.spec.node_name and not is_finished(pod) and (held := _held(pod)):
            by_node.setdefault(pod.spec.node_name, []).append(held)
    found = (_node(node, by_node.get(node.metadata.name, ())) for node in nodes)
    return tuple(sorted((one for one in found if one is not None), key=lambda one: one.name))


def _held(pod: Pod) -> tuple[Holder, Booking] | None:
    meta = pod.metadata
    allocation, problem = read_allocation(pod, meta.annotations)
    try:
        units, apps = pod_request(pod), sum(map(container_request, pod.spec.containers or ()))
    except InvalidQuantityError:
        units = apps = 0
    if not units and not problem:
        return None
    is_ours = wire.ANNOTATION_EXTENDER in (meta.annotations or {})
    holder = Holder(
        f"{meta.namespace}/{meta.name}", units, apps, allocation, problem, is_ours, is_started=was_started(pod)
    )
    size = allocation.card_size if allocation is not None else 0
    return holder, Booking(meta.uid, meta.namespace, meta.name, units, holder.shares, card_size=size)


def _node(node: Node, held: Sequence[tuple[Holder, Booking]]) -> FleetNode | None:
    total, count = capacity(node, wire.RESOURCE_MEMORY), capacity(node, wire.RESOURCE_COUNT)
    is_labelled = (node.metadata.labels or {}).get(_LABEL) == "true"
    if not (total or held or is_labelled):
        return None
    devices, refusal, *_ = read_devices(node)
    info = lay_out(node.metadata.name, devices, (booking for _, booking in held), refusal)
    average = total // count if devices else 0
    published = published_cards(node)
    plugin, unit = Plugin.NONE, 0
    if devices and published is not None:
        plugin, unit = Plugin.OURS, unit_mib(published)
    elif devices:
        plugin, unit = Plugin.ORIGINAL, unit_of_size(average)
    is_described = wire.ANNOTATION_CARDS in (node.metadata.annotations or {})
    holders = tuple(sorted((holder for holder, _ in held), key=lambda one: one.name))
    return FleetNode(node.metadata.name, plugin, unit, average, info, holders, is_described)
