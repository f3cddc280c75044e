"""Each node with cards as one compact row of the page, made again only if the node has changed. Pure.

5,000 nodes with 8 cards are 40,000 cards, so the work comes in slices (``Rows.follow``): nodes that are as before are recognised by
their value, which the book replaces when anything of the node changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from gpushare.extender.core.messages import encode_json
from gpushare.model.node import Device, NodeInfo, unit_of_size

# Marks of a card, added up.
UNHEALTHY: Final = 1
OVER_BOOKED: Final = 2
NO_SLOT: Final = 4
OVERUSED: Final = 8
# Numbers of each card in a row.
CARD_NUMBERS: Final = 5
# Nodes of a slice: a millisecond of work if all have changed.
_NODES_AT_ONCE: Final = 32


class Card(NamedTuple):
    """A card in a row, ``number`` is its index; amounts are in the node's unit, ``model`` is a place in ``Rows.models``."""

    number: int
    used: int
    total: int
    model: int
    marks: int

    @property
    def free(self) -> int:
        """The units that a pod can still get of it."""
        return 0 if self.marks & (UNHEALTHY | NO_SLOT) else max(self.total - self.used, 0)


class Overuser(NamedTuple):
    """A pod that uses more of a card than it booked, in MiB, as the node's device plugin published it."""

    card: int
    namespace: str
    name: str
    booked: int
    used: int


class Row(NamedTuple):
    """A node. ``cards`` are the numbers of all cards in one list: it is a third of the bytes of a list for each.

    ``unit_mib`` is how many MiB a unit is, also if the node does not publish that. ``unplaced`` are units of pods on no card of the
    node; ``refusal`` is why no pod may have one of the cards. ``left`` is ``NodeInfo.left_in_sum``.
    """

    name: str
    unit_mib: int
    cards: tuple[int, ...]
    unplaced: int
    refusal: str
    overusers: tuple[Overuser, ...] = ()
    left: int | None = None

    def each_card(self) -> Iterator[Card]:
        """The cards, by index."""
        for at in range(0, len(self.cards), CARD_NUMBERS):
            yield Card(*self.cards[at : at + CARD_NUMBERS])


class Sums(NamedTuple):
    """Sums of one node or of all, in MiB; ``largest`` is the most that one pod can get of one card, ``largest_on`` its node."""

    nodes: int = 0
    cards: int = 0
    booked: int = 0
    free: int = 0
    total: int = 0
    largest: int = 0
    largest_on: str = ""
    unhealthy: int = 0
    over_booked: int = 0

    def plus(self, other: Sums) -> Sums:
        """Both together."""
        larger = other if other.largest > self.largest else self
        return Sums(
            self.nodes + other.nodes, self.cards + other.cards, self.booked + other.booked, self.free + other.free,
            self.total + other.total, larger.largest, larger.largest_on, self.unhealthy + other.unhealthy,
            self.over_booked + other.over_booked,
        )  # fmt: skip


class Entry(NamedTuple):
    """A row with its sums, and the node that it was made of; ``text`` is the row as JSON, ``models`` are those of its cards.

    ``pods`` has a line, namespace/name, for each pod on the node: that is searched in a tenth of the time of a list.
    """

    node: NodeInfo
    row: Row
    text: bytes
    sums: Sums
    models: frozenset[int]
    pods: str

    @property
    def needs_attention(self) -> bool:
        """Is a card unhealthy or over-booked, a pod without a card or with too much of it, the node refused, its sum too small?"""
        row, sums = self.row, self.sums
        return bool(
            sums.unhealthy or sums.over_booked or row.unplaced or row.refusal or row.overusers or row.left is not None
        )


class Rows:
    """The rows as they were when ``follow`` came to its end last, by name.

    ``models`` has a place for each model; that of a model that no card has any more is empty, until another model takes it.

    ``changed`` and ``gone`` are what that one changed. ``reasons`` are why cards are unhealthy, by the node and the card's index.
    """

    def __init__(self) -> None:
        self.models: list[str] = []
        self._places: dict[str, int] = {}
        self._free_places: list[int] = []
        self.sums = Sums()
        self.changed: Sequence[str] = ()
        self.gone: Sequence[str] = ()
        self.reasons: dict[str, dict[int, str]] = {}
        self._kept: dict[str, Entry] = {}

    def follow(self, nodes: Sequence[NodeInfo]) -> Iterator[None]:
        """Become these nodes, which are by name; between two steps the caller may let others work, but begin no second one."""
        kept: dict[str, Entry] = {}
        changed: list[str] = []
        reasons: dict[str, dict[int, str]] = {}
        sums, used = Sums(), set[int]()
        for number, node in enumerate(nodes, 1):
            before = self._kept.get(node.name)
            now = before if before is not None and before.node is node else self._made(node)
            if before is None or now.text != before.text:
                changed.append(node.name)
            kept[node.name] = now
            sums = sums.plus(now.sums)
            used |= now.models
            if now.sums.unhealthy:
                reasons[node.name] = {one.index: one.reason for one in node.devices if one.reason and not one.healthy}
            if number % _NODES_AT_ONCE == 0:
                yield
        self.changed, self.gone = changed, [name for name in self._kept if name not in kept]
        former, self._kept, self.sums, self.reasons = self._kept, kept, sums, reasons
        for model in [model for model, place in self._places.items() if place not in used]:
            place = self._places.pop(model)
            self.models[place] = ""
            self._free_places.append(place)
        # To free all that has changed takes long, too, so it is not left to the end of this function.
        for number, name in enumerate(changed, 1):
            former.pop(name, None)
            if number % _NODES_AT_ONCE == 0:
                yield

    def entries(self) -> list[Entry]:
        """All, by name."""
        return list(self._kept.values())

    def texts(self) -> list[bytes]:
        """All as JSON, by name."""
        return [one.text for one in self._kept.values()]

    def text_of(self, name: str) -> bytes:
        """One of them."""
        return self._kept[name].text

    def _made(self, node: NodeInfo) -> Entry:
        unit = _unit_of(node.devices)
        overusers = _overusers(node)
        overused = {one.card for one in overusers}
        cards = [self._card(device, is_overused=device.index in overused) for device in node.devices]
        numbers = tuple(number for card in cards for number in card)
        left = node.left_in_sum
        row = Row(node.name, unit, numbers, node.unplaced, node.refusal or "", overusers, left)
        largest = (node.largest_free if left is None else left) * unit
        sums = Sums(
            1, len(cards), sum(card.used for card in cards) * unit, sum(card.free for card in cards) * unit,
            sum(card.total for card in cards) * unit, largest, node.name,
            sum(bool(card.marks & UNHEALTHY) for card in cards), sum(bool(card.marks & OVER_BOOKED) for card in cards),
        )  # fmt: skip
        pods = "\n".join(f"{one.namespace}/{one.name}" for one in node.bookings)
        return Entry(node, row, encode_json(row), sums, frozenset(card.model for card in cards), pods)

    def _card(self, device: Device, *, is_overused: bool) -> Card:
        marks = (0 if device.healthy else UNHEALTHY) + (OVER_BOOKED if device.used > device.total else 0)
        if device.slots and not device.free_slots:
            marks += NO_SLOT
        marks += OVERUSED if is_overused else 0
        return Card(device.index, device.used, device.total, self._place_of(device.model), marks)

    def _place_of(self, model: str) -> int:
        place = self._places.get(model)
        if place is None:
            if not self._free_places:
                self._free_places.append(len(self.models))
                self.models.append("")
            place = self._places[model] = self._free_places.pop()
            self.models[place] = model
        return place


def _overusers(node: NodeInfo) -> tuple[Overuser, ...]:
    """Those that are still there: a pod goes before its device plugin looks again."""
    if not node.overuse:
        return ()
    there = {one.uid: one for one in node.bookings}
    found = ((one, there[one.uid]) for one in node.overuse if one.uid in there)
    return tuple(Overuser(one.index, pod.namespace, pod.name, one.booked, one.used) for one, pod in found)


def _unit_of(devices: Sequence[Device]) -> int:
    """MiB of the node's unit."""
    return devices[0].unit_mib or unit_of_size(devices[0].total)
