"""The way from the original's programs to gpushare's, and back: what is in its way, and its next steps.

The extender is changed before the first plugin, and on the way back after the last. gpushare's extender takes each card of a node
of the original for total ÷ count, as the original does, and the original's plugin finds the pods that it binds. The original's
extender with gpushare's plugin is the pair to keep short: it does not read the cards annotation, so of unequal cards it promises
units that the smaller one lacks, and the plugin, which never over-commits, turns those pods away.

A node may change its plugin while its pods run: containers keep their cards, and the pods' annotations mean the same to both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from gpushare import wire
from gpushare.cli.answer_forms import counted
from gpushare.manifests import Node, Pod
from gpushare.model.allocation import written_booking
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
from gpushare.model.pod import container_request, is_finished, was_started
from gpushare.model.quantity import MIB_PER_GIB, MemoryUnit
from gpushare.setup.core.faults import Fault
from gpushare.setup.core.installed_objects import EXTENDER, NAMESPACE, PLUGIN

_PAGE: Final = "docs/install/from-the-original.md"
_OURS: Final = ("app.kubernetes.io/part-of", "gpushare")
# The names of the images that are built here, below a folder gpushare; and how the original's begin.
_IMAGES: Final = ("extender", "device-plugin")
_ORIGINAL_IMAGE: Final = "k8s-gpushare-"
_REPLACE: Final = "delete the pod, and its owner makes another"
_ROOM: Final = "delete pods of that card until the others fit; their owners make others"
_RESTART: Final = f"kubectl -n {NAMESPACE} delete pod --selector name={PLUGIN} --field-selector spec.nodeName={{node}}"
_FORGET: Final = f"kubectl annotate node {{node}} {wire.ANNOTATION_CARDS}-"
_LABEL: Final = "gpushare"


class Plugin(StrEnum):
    """The device plugin of a node."""

    ORIGINAL = "the original's plugin"
    OURS = "gpushare's plugin"
    NONE = "no plugin"


@dataclass(frozen=True, slots=True)
class Holder:
    """A bound pod that asks for card memory and has not ended.

    ``problem`` is why its annotations cannot be read. ``is_ours``: gpushare's extender bound it. ``is_moving``: its card is being
    changed. ``app_units`` is the sum over its containers without init containers, which is all that the original counts.
    """

    booking: Booking
    app_units: int
    problem: str | None
    is_ours: bool
    is_moving: bool
    is_started: bool

    @property
    def name(self) -> str:
        """With its namespace."""
        return f"{self.booking.namespace}/{self.booking.name}"


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
    by_node: dict[str, list[Holder]] = {}
    for pod in pods:
        if pod.spec.node_name and not is_finished(pod) and (holder := _holder(pod)):
            by_node.setdefault(pod.spec.node_name, []).append(holder)
    found = (_node(node, by_node.get(node.metadata.name, ())) for node in nodes)
    return tuple(sorted((one for one in found if one is not None), key=lambda one: one.name))


def _holder(pod: Pod) -> Holder | None:
    booking, allocation, problem = written_booking(pod)
    if not booking.units and not problem:
        return None
    apps = sum(map(container_request, pod.spec.containers or ())) if booking.units else 0
    is_ours = wire.ANNOTATION_EXTENDER in (pod.metadata.annotations or {})
    is_moving = allocation is not None and allocation.repair is not None
    return Holder(booking, apps, problem, is_ours, is_moving, is_started=was_started(pod))


def _node(node: Node, holders: Sequence[Holder]) -> FleetNode | None:
    total, count = capacity(node, wire.RESOURCE_MEMORY), capacity(node, wire.RESOURCE_COUNT)
    is_labelled = (node.metadata.labels or {}).get(_LABEL) == "true"
    if not (total or holders or is_labelled):
        return None
    devices, shown = read_devices(node)
    info = lay_out(node.metadata.name, devices, (one.booking for one in holders), shown)
    average = total // count if devices else 0
    published = published_cards(node)
    plugin, unit = Plugin.NONE, 0
    if devices and published is not None:
        plugin, unit = Plugin.OURS, unit_mib(published)
    elif devices:
        plugin, unit = Plugin.ORIGINAL, unit_of_size(average)
    is_described = wire.ANNOTATION_CARDS in (node.metadata.annotations or {})
    by_name = tuple(sorted(holders, key=lambda one: one.name))
    return FleetNode(node.metadata.name, plugin, unit, average, info, by_name, is_described)


@dataclass(frozen=True, slots=True)
class Course:
    """Which way: ``unit`` is the one in which the plugin to come counts, GiB or MiB."""

    unit: MemoryUnit
    is_back: bool = False

    @property
    def leaves(self) -> Plugin:
        """The plugin that goes."""
        return Plugin.OURS if self.is_back else Plugin.ORIGINAL

    @property
    def command(self) -> str:
        """The verb, to run it again."""
        unit = "" if self.unit.mib == MIB_PER_GIB else f" --memory-unit={self.unit}"
        return f"gpushare-setup migrate{' --back' if self.is_back else ''}{unit}"


def is_gpushares(found: Mapping[str, Any] | None, last_bound: Pod | None = None) -> bool | None:
    """Is the Deployment or DaemonSet gpushare's? None if there is none.

    The original's objects may run gpushare's image. Then its name shows that, or for the extender the annotation of the pod that
    was bound last, as an image may be called anything.
    """
    if found is None:
        return None
    name, value = _OURS
    if ((found.get("metadata") or {}).get("labels") or {}).get(name) == value:
        return True
    pod = ((found.get("spec") or {}).get("template") or {}).get("spec") or {}
    images = [str(one.get("image")).partition("@")[0].rpartition("/") for one in pod.get("containers") or ()]
    if any(folder.endswith("gpushare") and name.partition(":")[0] in _IMAGES for folder, _, name in images):
        return True
    if any(name.startswith(_ORIGINAL_IMAGE) for _, _, name in images) or last_bound is None:
        return False
    return wire.ANNOTATION_EXTENDER in (last_bound.metadata.annotations or {})


def bound_last(pods: Iterable[Pod]) -> Pod | None:
    """The pod that an extender bound last, by the time that it wrote; None if there is none."""
    times = [(str((one.metadata.annotations or {}).get(wire.ANNOTATION_ASSUME_TIME, "")), one) for one in pods]
    bound = [(int(time), one) for time, one in times if re.fullmatch(r"\d{1,20}", time, re.ASCII)]
    return max(bound, key=lambda one: one[0], default=(0, None))[1]


def picture(fleet: Sequence[FleetNode], extender: bool | None) -> Iterator[str]:
    """The fleet as it is: a line for the extender, for each node and for each pod."""
    of = {True: "gpushare's", False: "the original's", None: f"no deployment {EXTENDER} in {NAMESPACE}"}
    yield f"extender: {of[extender]}"
    for node in fleet:
        yield f"node {node.name}: {node.plugin}{_cards(node)}, {counted(len(node.holders), 'pod')}"
        for pod in node.holders:
            binder = "gpushare's extender" if pod.is_ours else "the original's extender"
            on_cards = " and ".join(f"card {index}: {units}" for index, units in pod.booking.shares)
            where = on_cards or f"no card: {pod.booking.units}"
            yield f"  {pod.name}, {where}, by {binder}, {'started' if pod.is_started else 'not started yet'}"


def _cards(node: FleetNode) -> str:
    if node.plugin is Plugin.NONE:
        return ""
    unit, used = MemoryUnit(node.unit) if node.unit else "units", sum(one.used for one in node.info.devices)
    sizes, total = ", ".join(map(str, node.sizes)), sum(node.sizes)
    share = f"{total} ÷ {len(node.sizes)} = {node.average}"
    return f", cards of {sizes} {unit} ({share}), {used} of {total} booked"


def faults_of(fleet: Sequence[FleetNode], extender: bool | None, course: Course) -> list[Fault]:
    """All that is in the way, by node."""
    found = []
    for node in fleet:
        found += [*_unserved(node, course), *_pods(node), *_over_booked(node), *_units(node, course)]
        found += _wrong_pair(node) if extender is False else ()
        if course.is_back:
            found += _not_for_the_original(node)
    return found


def _unserved(node: FleetNode, course: Course) -> Iterator[Fault]:
    if node.plugin is Plugin.NONE:
        held = f", and {counted(len(node.holders), 'pod')} of it hold some" if node.holders else ""
        yield Fault(
            f"node {node.name} offers no card memory{held}",
            f"run {course.command} again in a moment, then read the log of its plugin: "
            f"kubectl -n {NAMESPACE} get pods --selector name={PLUGIN} --field-selector spec.nodeName={node.name}",
        )


def _pods(node: FleetNode) -> Iterator[Fault]:
    indices = [device.index for device in node.info.devices]
    for pod in node.holders:
        if not pod.booking.shares:
            what = f"pod {pod.name} holds {pod.booking.units} units of node {node.name} and names no card"
            yield Fault(f"{what}: {pod.problem}" if pod.problem else what, _REPLACE)
        for index, _ in pod.booking.shares:
            if indices and index not in indices:
                have = ", ".join(map(str, indices))
                yield Fault(f"pod {pod.name} names card {index}, and node {node.name} has the cards {have}", _REPLACE)


def _over_booked(node: FleetNode) -> Iterator[Fault]:
    for device in node.info.devices:
        if device.used > device.total:
            what = f"node {node.name}, card {device.index}: {device.used} units are booked, and it has {device.total}"
            yield Fault(f"{what} ({_on(node.holders, device.index)})", _ROOM)


def _units(node: FleetNode, course: Course) -> Iterator[Fault]:
    if node.plugin is course.leaves and node.unit != course.unit.mib and node.holders:
        unit = MemoryUnit(node.unit) if node.unit else None
        or_keep = f", or give the plugin to come, and {course.command}, the unit {unit} (GiB or MiB)" if unit else ""
        yield Fault(
            f"node {node.name} counts in {unit or 'an unknown unit'}, the plugin to come in {course.unit}, and "
            f"{counted(len(node.holders), 'pod')} of it hold memory",
            f"drain the node first{or_keep}",
        )
    for pod in node.holders:
        size = pod.booking.card_size
        if size and size not in node.sizes and node.unit in (1, MIB_PER_GIB) and unit_of_size(size) != node.unit:
            then = MemoryUnit(unit_of_size(size))
            yield Fault(
                f"pod {pod.name} was bound in {then}, and node {node.name} counts in {MemoryUnit(node.unit)}", _REPLACE
            )


def _wrong_pair(node: FleetNode) -> Iterator[Fault]:
    for device in node.info.devices:
        if node.plugin is Plugin.OURS and device.total < node.average:
            yield Fault(
                f"node {node.name}, card {device.index}: it has {device.total} units, and the original's extender books "
                f"{node.average} on it",
                f"put gpushare's extender back in its place, and leave it there as long as a node has gpushare's plugin ({_PAGE})",
            )


def _not_for_the_original(node: FleetNode) -> Iterator[Fault]:
    first = next((device.total for device in node.info.devices), 0)
    for device in node.info.devices if node.plugin is Plugin.OURS else ():
        where = f"node {node.name}, card {device.index}"
        if device.total < first:
            yield Fault(
                f"{where}: it has {device.total} units, and the original's plugin offers {first} of each card",
                f"let the node's pods end, then take the node out: kubectl label node {node.name} gpushare-",
            )
        elif device.used > first:
            what = f"{where}: {device.used} units are booked, and the original's plugin offers {first} of each card"
            yield Fault(f"{what} ({_on(node.holders, device.index)})", _ROOM)
    for pod in node.holders:
        if len(pod.booking.shares) > 1:
            cards = " and ".join(str(index) for index, _ in pod.booking.shares)
            yield Fault(f"pod {pod.name} is on the cards {cards}, and the original's extender books one", _REPLACE)
        if pod.app_units < pod.booking.units:
            yield Fault(
                f"pod {pod.name} holds {pod.booking.units} units with its init containers, and the original counts {pod.app_units}",
                "delete the pod, and let its owner make none until the init containers ask for no more than the others",
            )
        if pod.is_moving:
            yield Fault(
                f"the card of pod {pod.name} is being changed", "run gpushare-setup migrate --back again in a moment"
            )


def _on(pods: Iterable[Holder], index: int) -> str:
    return ", ".join(f"{pod.name} {units}" for pod in pods for card, units in pod.booking.shares if card == index)


def steps(fleet: Sequence[FleetNode], extender: bool | None, plugin: bool | None, course: Course) -> Iterator[str]:
    """The commands that come next, in their order; none if the way is at its end. ``plugin`` is about the DaemonSet."""
    left = [node.name for node in fleet if node.plugin is course.leaves or (course.is_back and node.is_described)]
    is_new = not course.is_back
    if not left and extender in (is_new, None):
        return
    if is_new and not (extender and plugin):
        yield f"kubectl apply -k FOLDER    # {_PAGE}: the extender now, each plugin when its pod is deleted"
        yield f"kubectl -n {NAMESPACE} rollout status deployment/{EXTENDER}"
    if course.is_back and left and plugin is not False:
        yield f"kubectl apply -k FOLDER    # {_PAGE}: the original's plugins alone, each when its pod is deleted"
    for name in left:
        yield _RESTART.format(node=name)
        if course.is_back:
            yield f"{_FORGET.format(node=name)}    # once the original's plugin is there"
        yield f"{course.command}    # the node has changed, and nothing is in the way"
    if course.is_back:
        yield f"kubectl apply -k FOLDER    # {_PAGE}: the original's extender, after the last plugin"
