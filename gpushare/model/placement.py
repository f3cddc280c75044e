"""Which card of a node a pod gets, and why none. Pure.

The policy decides among the cards that hold the request and that the pod wishes for; of equal ones the lower index wins.
``binpack``, the default, is best fit, the rule of the original (``pkg/cache/nodeinfo.go``): the smallest free block that is large
enough, so that large blocks stay whole for large pods. ``spread`` uses all cards evenly. ``fragmentation`` keeps what is free
useful for the pods that are expected: it takes the card on which least comes to be wasted (``model.forecast``). On a node in slots
mode the card must have a free slot for each container.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from gpushare import wire
from gpushare.errors import DoesNotFitError
from gpushare.manifests import DisruptionBudget
from gpushare.model.allocation import Shares
from gpushare.model.forecast import Card, Forecast, cards_of
from gpushare.model.node import Device, NodeInfo
from gpushare.model.pod import Request
from gpushare.model.wishes import NONE

# Reasons that the end of other pods can cure; with any other, evicting them would kill them for nothing.
CURABLE: Final = frozenset({wire.REASON_NO_CARD_FITS, wire.REASON_NO_SLOT, wire.REASON_NO_CARDS_FOR_SPLIT})


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All nodes that are known at one moment, by name; nodes without cards too. The maps must not be changed; each node is a value.

    ``forecast`` predicts which pods will come, None if none came yet; ``free_cpu`` has the milli-CPUs that no pod of
    a node asks for, if CPU is counted. ``budgets`` protect pods from eviction.
    """

    nodes: Mapping[str, NodeInfo] = field(default_factory=lambda: MappingProxyType({}))
    forecast: Callable[[], Forecast | None] = lambda: None
    free_cpu: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    budgets: Mapping[tuple[str, str], DisruptionBudget] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class Question:
    """A request, and what of the whole cluster matters to it.

    ``policy`` is its own or the cluster's; ``group_cards`` has the cards, by node, of the pods with which it shares a card
    (empty: it is the first, or it wishes for none). ``forecast`` is there if the policy needs it, and then the pod's
    ``cpu_milli`` and the ``free_cpu`` of nodes count too, if they are known.
    """

    request: Request
    policy: str = wire.POLICY_BINPACK
    group_cards: Mapping[str, frozenset[int]] = field(default_factory=dict)
    forecast: Forecast | None = None
    cpu_milli: int = 0
    free_cpu: Mapping[str, int] = field(default_factory=dict)
    # By model of card: does the pod wish for it? There are few models in a cluster, and each is compared once.
    _models: dict[str, bool] = field(default_factory=dict, repr=False, compare=False)

    def wishes_for(self, device: Device) -> bool:
        """Is this card one that the pod wishes for, by its model and its UUID?"""
        wishes = self.request.wishes
        if not wishes.names_cards:
            return True
        is_one = self._models.get(device.model)
        if is_one is None:
            is_one = self._models[device.model] = wishes.allow_model(device.model)
        return is_one and wishes.allow_uuid(device.uuid)

    def cpu_left(self, node: str) -> int | None:
        """Milli-CPUs that a node has left with this pod; None if CPU is not counted."""
        free = self.free_cpu.get(node)
        return None if free is None else max(free - self.cpu_milli, 0)


def question(request: Request, snapshot: Snapshot, policy: str = wire.POLICY_BINPACK, cpu_milli: int = 0) -> Question:
    """The question for each node; ``policy`` is the cluster's. Before the first pod nothing is expected: binpack."""
    group, policy = request.wishes.group, request.wishes.policy or policy
    group_cards = _group_cards(group, snapshot) if group else {}
    if policy != wire.POLICY_FRAGMENTATION:
        return Question(request, policy, group_cards)
    forecast = snapshot.forecast()
    if forecast is None:
        return Question(request, wire.POLICY_BINPACK, group_cards)
    return Question(request, policy, group_cards, forecast, cpu_milli, snapshot.free_cpu)


def _group_cards(group: str, snapshot: Snapshot) -> Mapping[str, frozenset[int]]:
    """Where the pods of a group are. Looks at every booking: few pods have such a wish, and none pays for them otherwise."""
    found: dict[str, frozenset[int]] = {}
    for name, node in snapshot.nodes.items():
        cards = frozenset(index for one in node.bookings if one.group == group for index, _ in one.shares)
        if cards:
            found[name] = cards
    return found


def choose(node: NodeInfo, asked: Question) -> Shares:
    """The cards for a request of 1 unit or more, for bind. Raises DoesNotFitError with the reason for the scheduler."""
    found = find(node, asked)
    if isinstance(found, str):
        raise DoesNotFitError(found)
    return found


def reason_against(node: NodeInfo, asked: Question) -> str:
    """The answer of filter for the node: the reason of its refusal, "" if a card holds the request."""
    if asked.policy != wire.POLICY_BINPACK:
        # Whether there is a card does not depend on which the policy likes best.
        asked = replace(asked, policy=wire.POLICY_BINPACK, forecast=None)
    found = find(node, asked)
    return found if isinstance(found, str) else ""


def find(node: NodeInfo, asked: Question) -> Shares | str:
    """The cards for a request of 1 unit or more, or why there are none: a constant text, so that a scheduler can count it."""
    request, units = asked.request, asked.request.units
    if request.wishes is NONE and not node.counts_slots and asked.policy == wire.POLICY_BINPACK:
        # Nearly every pod takes any card of such a node: without a look at each. The rooms are sorted by what is free.
        if node.largest_free >= units:
            return ((node.rooms[bisect_left(node.rooms, (units,))][1], units),)
        if node.largest_total >= units:
            return wire.REASON_NO_CARD_FITS
    devices = _eligible(node, asked)
    if isinstance(devices, str):
        return devices
    if request.wishes.split:
        return _split(devices, node, asked) or wire.REASON_NO_CARDS_FOR_SPLIT
    device = _best(devices, units, node, asked)
    if device is not None:
        return ((device.index, units),)
    # Which of the things that the end of other pods gives back is missing?
    lacks_slot = node.counts_slots and any(device.free >= units for device in devices)
    return wire.REASON_NO_SLOT if lacks_slot else wire.REASON_NO_CARD_FITS


def _best(
    devices: Sequence[Device], units: int, node: NodeInfo, asked: Question, numa: int | None = None
) -> Device | None:
    """The card that the policy likes best of those that hold the units; between equal ones one of the NUMA node."""
    slots = asked.request.slots
    fitting = [device for device in devices if device.holds(units, slots)]
    if len(fitting) < 2:
        return fitting[0] if fitting else None
    rank = _rank(fitting, units, node, asked)
    return min(fitting, key=lambda device: (rank(device), numa is not None and device.numa != numa, device.index))


def _rank(fitting: Sequence[Device], units: int, node: NodeInfo, asked: Question) -> Callable[[Device], float]:
    """How little the policy likes a card."""
    if asked.forecast is None:
        return lambda device: -device.free / device.total if asked.policy == wire.POLICY_SPREAD else device.free
    cards, cpu, kinds = cards_of(node), asked.cpu_left(node.name), {_card(device) for device in fitting}
    if len(kinds) == 1:
        return lambda device: 0.0
    forecast = asked.forecast
    # Rounded: what sums of fractions differ by is nothing.
    wasted = {kind: round(forecast.fragments(without(cards, kind, units), cpu), 9) for kind in kinds}
    return lambda device: wasted[_card(device)]


def _card(device: Device) -> Card:
    return device.free, device.total, device.model


def without(cards: tuple[Card, ...], card: Card, units: int) -> tuple[Card, ...]:
    """A node's cards after ``units`` of one of them are taken."""
    left = list(cards)
    left.remove(card)
    free, total, model = card
    return tuple(sorted([*left, (free - units, total, model)]))


def _split(devices: Sequence[Device], node: NodeInfo, asked: Question) -> Shares:
    """A card for each part, the largest part first: every card that holds it holds the smaller ones too. Empty: too few hold."""
    left = list(devices)
    shares: list[tuple[int, int]] = []
    numa: int | None = None
    for units in asked.request.wishes.split:
        device = _best(left, units, node, asked, numa)
        if device is None:
            return ()
        left.remove(device)
        numa = device.numa
        shares.append((device.index, units))
    return tuple(sorted(shares))


def _eligible(node: NodeInfo, asked: Question) -> Sequence[Device] | str:
    """The cards that may be chosen if they have room; or why this pod can have no card of the node, even if pods end."""
    request = asked.request
    if node.published.refusal or not node.devices:
        return node.published.refusal or wire.REASON_NOT_A_GPU_NODE
    if node.counts_slots and not request.names_slots:
        return wire.REASON_SLOT_MISSING
    devices = node.devices if request.wishes is NONE else _wished_for(node, asked)
    return devices if isinstance(devices, str) else _too_small(node, devices, request) or devices


def _wished_for(node: NodeInfo, asked: Question) -> Sequence[Device] | str:
    """The cards that the pod wishes for, at least one; or why the node has none."""
    wishes, units = asked.request.wishes, asked.request.units
    if wishes.names_cards and not all(device.uuid for device in node.devices):
        return wire.REASON_CARDS_UNSAID
    in_group = asked.group_cards.get(node.name, frozenset())
    narrower: tuple[tuple[str, Callable[[Device], bool]], ...] = (
        (wire.REASON_NO_SUCH_CARD, asked.wishes_for),
        (wire.REASON_OTHER_CARD, lambda device: not asked.group_cards or device.index in in_group),
        (wire.REASON_NO_WHOLE_CARD, lambda device: not wishes.whole or device.total == units),
    )
    devices: Sequence[Device] = node.devices
    for reason, is_one in narrower:
        devices = [device for device in devices if is_one(device)]
        if not devices:
            return reason
    return devices


def _too_small(node: NodeInfo, devices: Sequence[Device], request: Request) -> str:
    """Why even empty cards would not do, or ""."""
    healthy = [device for device in devices if device.healthy]
    if not healthy:
        return wire.REASON_ALL_CARDS_UNHEALTHY
    split = request.wishes.split
    if split:
        if node.counts_slots or not all(device.uuid for device in devices):
            return wire.REASON_ONE_CARD_A_CONTAINER
        totals = sorted((device.total for device in healthy), reverse=True)
        is_enough = len(totals) >= len(split) and all(map(int.__ge__, totals, split))
        return "" if is_enough else wire.REASON_TOO_FEW_CARDS
    large = [device for device in healthy if device.total >= request.units]
    if not large:
        return wire.REASON_NO_CARD_LARGE_ENOUGH
    if node.counts_slots and all(device.slots < request.slots for device in large):
        return wire.REASON_TOO_MANY_CONTAINERS
    return ""
