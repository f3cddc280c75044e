"""From nodes and pods, as the API lists them, to what is booked on which card, and to the findings of ``--check``."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from gpushare import wire
from gpushare.errors import InvalidQuantityError
from gpushare.manifests import Node, NodeStatus, ObjectMeta, Pod, PodOutline
from gpushare.model.allocation import written_booking
from gpushare.model.cards import CARDS_VERSION, MODE_IDS, CardFacts, NodeCards, encode_cards
from gpushare.model.limits import LOOSE, NONE, TIGHT, PodLimit, limits_by_card
from gpushare.model.node import (
    Booking,
    Device,
    NodeInfo,
    capacity,
    described_cards,
    lay_out,
    published_cards,
    read_devices,
)
from gpushare.model.pod import is_finished, names_card_resources, was_started
from gpushare.model.quantity import MemoryUnit

# Upstream quirk: a card of more than this many units is taken to be counted in MiB.
_MOST_GIB: Final = 100
_NS: Final = 10**9
# Pods of a node that one finding names.
_MOST_PODS: Final = 5
# Kinds of findings that ``doctor`` has other commands for.
UNHEALTHY: Final = "unhealthy"
LIMITS: Final = "limits"


class Finding(NamedTuple):
    """A line about a pod or, if there is no ``namespace``, about a node; ``kind`` is UNHEALTHY, LIMITS, or "" for any other."""

    text: str
    name: str
    namespace: str = ""
    kind: str = ""


class NodeReport(Struct, frozen=True, gc=False):
    """One node with cards. ``total`` in units of ``unit`` (``GiB``, ``MiB``, ``256MiB``; empty: no card to tell by).

    ``unhealthy`` are the cards that get no pods, by index: unhealthy or lost, as the device plugin published it.
    """

    name: str
    address: str
    total: int
    unit: str
    info: NodeInfo
    is_published: bool = False
    """Did the device plugin publish the unit, so that it is no guess?"""
    unhealthy: Mapping[int, CardFacts] = field(default_factory=dict)
    whole: int = 0
    """The capacity of a node without published cards; ``total`` is what its kubelet offers, as in the original's table."""
    limits: Mapping[tuple[str, int], PodLimit] = field(default_factory=dict)
    """By uid of a pod and index of a card, the limit that the device plugin publishes."""

    def size_of(self, device: Device) -> int:
        """The units of a card, also while the kubelet offers less of the node than it has."""
        return max(device.total, self.whole // max(len(self.info.devices), 1))

    @property
    def used(self) -> int:
        """Units booked, those that no card is known for too."""
        return sum(device.used for device in self.info.devices) + self.info.unplaced


class BoundPod(Struct, frozen=True, gc=False):
    """A pod that holds card memory of a node, and what is wrong with its request or annotations.

    ``assumed_at`` is when a card was chosen for a pod that has not started since, in ns since 1970; 0 for any other.
    """

    node: str
    booking: Booking
    problem: str | None = None
    assumed_at: int = 0
    limits: Mapping[int, PodLimit] = field(default_factory=dict)


def bound_pod(pod: Pod) -> BoundPod | None:
    """The part of a pod that a report is made of; None for one that is not bound, has ended, or asks for nothing."""
    if not pod.spec.node_name or is_finished(pod) or not names_card_resources(pod):
        return None
    booking, allocation, problem = written_booking(pod)
    assumed_at = 0 if allocation is None or was_started(pod) else allocation.assume_time
    return BoundPod(pod.spec.node_name, booking, problem, assumed_at, limits_by_card(pod))


def nodes_of_pods(pods: Iterable[BoundPod]) -> list[Node]:
    """The nodes of pods, with the cards that these have: for a caller that may not see nodes. A card has the size at the bind."""
    sizes: dict[str, dict[int, int]] = {}
    for pod in pods:
        for index, units in pod.booking.shares:
            cards = sizes.setdefault(pod.node, {})
            cards[index] = max(cards.get(index, 0), pod.booking.card_size or units)
    return [_node_of(name, cards) for name, cards in sorted(sizes.items())]


def _node_of(name: str, sizes: Mapping[int, int]) -> Node:
    cards = tuple(CardFacts(index, "", "", 0, units) for index, units in sorted(sizes.items()))
    text = encode_cards(NodeCards(CARDS_VERSION, MODE_IDS, "", "", cards))
    amounts: dict[str, str | int | float] = {
        wire.RESOURCE_MEMORY: sum(sizes.values()),
        wire.RESOURCE_COUNT: len(sizes),
    }
    return Node(ObjectMeta(name, annotations={wire.ANNOTATION_CARDS: text}), NodeStatus(amounts))


def report(
    nodes: Iterable[Node], pods: Iterable[BoundPod], unreadable: Collection[PodOutline] = ()
) -> tuple[tuple[NodeReport, ...], tuple[Finding, ...]]:
    """The nodes that have card memory, by name, and a line for each pod whose booking and each node whose cards cannot be read.

    Such a pod is not left out: its units show as pending. A node with an ``unreadable`` pod has no card that gets pods.
    """
    closed = {pod.spec.node_name for pod in unreadable}
    by_node: dict[str, list[Booking]] = {}
    limits: dict[str, dict[tuple[str, int], PodLimit]] = {}
    problems = [Finding(pod.warning, pod.metadata.name, pod.metadata.namespace) for pod in unreadable]
    for pod in sorted(pods, key=lambda pod: (pod.booking.name, pod.booking.namespace)):
        booking = pod.booking
        if pod.problem:
            problems.append(_about(booking, f": {pod.problem}"))
        if booking.units > 0:
            by_node.setdefault(pod.node, []).append(booking)
            limits.setdefault(pod.node, {}).update({(booking.uid, at): one for at, one in pod.limits.items()})
    reports = [
        replace(
            _report(node, by_node.get(node.metadata.name, ()), is_closed=node.metadata.name in closed),
            limits=limits.get(node.metadata.name, {}),
        )
        for node in nodes
    ]
    problems += (
        Finding(f"node {one.name} gets no pods: {why}", one.name)
        for one in reports
        if (why := one.info.published.refusal)
    )
    problems += (problem for one in reports for problem in (*_unhealthy_cards(one), *_absent_cards(one)))
    shown = sorted((one for one in reports if one.total > 0), key=lambda one: one.name)
    return _in_one_unit(shown), tuple(problems)


def _about(booking: Booking, text: str) -> Finding:
    return Finding(f"pod {booking.namespace}/{booking.name}{text}", booking.name, booking.namespace)


def _unhealthy_cards(report: NodeReport) -> Iterator[Finding]:
    """The table shows such a card like any other, as the original's does."""
    for index, card in sorted(report.unhealthy.items()):
        why = card.reason or "it is unhealthy"
        text = f"node {report.name}: card {index} ({card.model}, {card.uuid}) gets no pods: {why}"
        yield Finding(text, report.name, kind=UNHEALTHY)


def _absent_cards(report: NodeReport) -> Iterator[Finding]:
    """Pods of a card that the node does not have: their units are pending in both tables."""
    indices = [device.index for device in report.info.devices]
    for booking in report.info.bookings:
        for index in (index for index, _ in booking.shares if indices and index not in indices):
            but = f"but node {report.name} has the cards {indices}: its units are pending"
            yield _about(booking, f": its annotations name card {index}, {but}")


def _report(node: Node, bookings: Sequence[Booking], *, is_closed: bool) -> NodeReport:
    """Each card's true size if the device plugin published it; else the allocatable sum, divided by the count."""
    published = published_cards(node)
    as_listed = node if published else _with_allocatable(node)
    total = capacity(as_listed, wire.RESOURCE_MEMORY)
    cards = read_devices(as_listed)
    if is_closed:
        cards = cards.closed(wire.REASON_UNREADABLE_POD)
    devices = cards.devices
    unit = published.unit if published else ""
    if not unit and devices:
        unit = "MiB" if devices[0].total > _MOST_GIB else "GiB"
    info = lay_out(node.metadata.name, devices, bookings, cards.published)
    whole = 0 if published else capacity(node, wire.RESOURCE_MEMORY)
    unhealthy = {card.index: card for card in published.cards if not card.healthy} if published else {}
    addresses = (node.status.addresses if node.status else None) or ()
    address = next((one.address for one in addresses if one.type == "InternalIP"), "unknown")
    return NodeReport(node.metadata.name, address, total, unit, info, published is not None, unhealthy, whole)


def _in_one_unit(reports: Sequence[NodeReport]) -> tuple[NodeReport, ...]:
    """In MiB if nodes count in different units: the table has one unit and one sum.

    Only if a device plugin of ours published its unit; the original's table adds up whatever there is.
    """
    units = {one.unit for one in reports if one.unit}
    if len(units) < 2 or not any(one.is_published for one in reports):
        return tuple(reports)
    return tuple(_in_mib(one) for one in reports)


def _in_mib(report: NodeReport) -> NodeReport:
    """The same node, counted in MiB; one with an unknown unit stays as it is."""
    try:
        mib = MemoryUnit.parse(report.unit).mib
    except InvalidQuantityError:
        return report
    info = report.info
    devices = tuple(replace(one, total=one.total * mib, used=0, slots_used=0) for one in info.devices)
    offered = info.published.offered and info.published.offered * mib
    bookings = [
        replace(one, units=one.units * mib, shares=tuple((index, units * mib) for index, units in one.shares))
        for one in info.bookings
    ]
    return replace(
        report,
        total=report.total * mib,
        whole=report.whole * mib,
        unit="MiB",
        info=lay_out(info.name, devices, bookings, info.published._replace(offered=offered)),
    )


def _with_allocatable(node: Node) -> Node:
    """The node with its allocatable amounts for its capacity: what the original divides by the number of cards."""
    if node.status is None:
        return node
    return replace(node, status=replace(node.status, capacity=node.status.allocatable))


def findings(
    nodes: Iterable[Node],
    pods: Iterable[BoundPod],
    reports: Iterable[NodeReport],
    problems: Sequence[Finding],
    now: float,
    assumed_for: float,
) -> list[Finding]:
    """A line for each; ``problems`` are those of the report. ``now`` is in seconds since 1970."""
    found = list(problems)
    for one in reports:
        found += (Finding(f"node {one.name}: {text}", one.name) for text in _over_booked(one))
        found += (Finding(f"node {one.name}: {text}", one.name, kind=LIMITS) for text in _not_limited(one))
    found += (finding for one in pods for finding in _not_started(one, now, assumed_for))
    for node in nodes:
        cards, refusal = described_cards(node)
        if cards is not None and not refusal and published_cards(node) is None:
            name = node.metadata.name
            found.append(Finding(f"node {name}: its cards annotation does not agree with its capacity", name))
    return found


def _over_booked(report: NodeReport) -> Iterator[str]:
    for device in report.info.devices:
        size = report.size_of(device)
        if device.used > size:
            yield f"card {device.index} is over-booked: {device.used} of {size} units"
        if report.info.counts_slots and device.slots_used > device.slots:
            yield f"card {device.index} is over-booked: {device.slots_used} of {device.slots} slots"
    if report.whole > report.total:
        yield (
            f"its kubelet offers {report.total} of {report.whole} units, as if a card was unhealthy, "
            f"and all its pods count: the next one gets at most {max(report.total - report.used, 0)}"
        )
    if report.info.unplaced:
        yield f"{report.info.unplaced} units of its pods are on none of its cards"


def _not_limited(report: NodeReport) -> Iterator[str]:
    if report.info.published.unlimited:
        yield report.info.published.unlimited
    limits = (
        (one, index, report.limits.get((one.uid, index))) for one in report.info.bookings for index, _ in one.shares
    )
    found = [
        f"{one.namespace}/{one.name} on card {index} ({limit.state})"
        for one, index, limit in limits
        if limit is not None and limit.state in (NONE, LOOSE, TIGHT)
    ]
    if found:
        more = f", and {len(found) - _MOST_PODS} more" if len(found) > _MOST_PODS else ""
        yield f"the memory limit is not the share of {', '.join(found[:_MOST_PODS])}{more}"


def _not_started(pod: BoundPod, now: float, assumed_for: float) -> Iterator[Finding]:
    since = now - pod.assumed_at / _NS
    if pod.assumed_at and since > assumed_for:
        yield _about(pod.booking, f": it has a card of node {pod.node} for {since:.0f} s and has not started")
