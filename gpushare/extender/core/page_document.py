"""The content of the page, as one JSON document and as the changes since the one before. Pure.

A document is made of sections, and each is bytes already: both the document and the changes only join them. Times are seconds of
the extender's monotonic clock beside ``now``, so that a viewer's clock does not matter.

Each node with cards is one compact row. 5,000 nodes with 8 cards are 40,000 cards, so the work comes in slices (``Rows.follow``):
nodes that are as before are recognised by their value, which the book replaces when anything of the node changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, NamedTuple

from gpushare.errors import InvalidQuantityError
from gpushare.extender.core.book import Book
from gpushare.extender.core.explain import nodes_with_cards
from gpushare.extender.core.filter_cache import GATED, NOT_REFUSED, CachedAnswer, FilterCache, reason_of_wait
from gpushare.extender.core.messages import encode_json
from gpushare.extender.core.page_history import Decision, Decisions, Point, Trends
from gpushare.manifests import Pod
from gpushare.model.node import Device, NodeInfo, unit_of_size
from gpushare.model.pod import pod_request
from gpushare.model.quantity import MIB_PER_GIB
from gpushare.model.waiting import DEFAULT_SCHEDULER, Wait

# Marks of a card, added up.
UNHEALTHY: Final = 1
OVER_BOOKED: Final = 2
NO_SLOT: Final = 4
OVERUSED: Final = 8
UNLIMITED: Final = 16
# Numbers of each card in a row.
CARD_NUMBERS: Final = 5
_UNITS: Final = {MIB_PER_GIB: "GiB", 1: "MiB"}
# Nodes of a slice: a millisecond of work if all have changed.
_NODES_AT_ONCE: Final = 32
# Pods of a node that are listed because they can have more than their share.
_MOST_UNLIMITED: Final = 8
# Waiting pods that are listed; the number of all is beside them.
MOST_WAITING: Final = 200
# Waiting pods that one slice looks at.
_PODS_AT_ONCE: Final = 250


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


class Unlimited(NamedTuple):
    """A pod that can have more of a card than its share; ``state`` is that of its limit (``model.limits``)."""

    card: int
    namespace: str
    name: str
    state: str


class Row(NamedTuple):
    """A node. ``cards`` are the numbers of all cards in one list: it is a third of the bytes of a list for each.

    ``unit`` is the name of a unit, also if the node does not publish it. ``unplaced`` are units of pods on no card of the node;
    ``refusal`` is why no pod may have one of the cards. ``left`` is ``NodeInfo.left_in_sum``.
    ``limits`` is the condition about limits if it is not True, and the first pods without one or with a loose one.
    """

    name: str
    unit: str
    cards: tuple[int, ...]
    unplaced: int
    refusal: str
    overusers: tuple[Overuser, ...] = ()
    left: int | None = None
    limits: tuple[str, tuple[Unlimited, ...]] = ("", ())

    def text(self) -> bytes:
        """As JSON; it ends before ``limits`` if nothing is published of them."""
        return encode_json(self if any(self.limits) else self[:-1])

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
        """Is a card unhealthy or over-booked, the node refused, its sum too small, a pod on no card or not kept to its share?"""
        row, sums = self.row, self.sums
        return bool(
            sums.unhealthy or sums.over_booked or row.unplaced or row.refusal or row.overusers or row.left is not None
            or any(row.limits)
        )  # fmt: skip


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
        first = node.devices[0]
        unit = first.unit_mib or unit_of_size(first.total)
        overusers = _overusers(node)
        overused, unlimited = {one.card for one in overusers}, _unlimited(node)
        marks = dict.fromkeys(overused, OVERUSED)
        for card in {one.card for one in unlimited}:
            marks[card] = marks.get(card, 0) + UNLIMITED
        cards = [self._card(device, marks.get(device.index, 0)) for device in node.devices]
        numbers = tuple(number for card in cards for number in card)
        left = node.left_in_sum
        limits = node.published.unlimited, unlimited[:_MOST_UNLIMITED]
        name = _UNITS.get(unit, f"units of {unit} MiB")
        row = Row(node.name, name, numbers, node.unplaced, node.published.refusal or "", overusers, left, limits)
        largest = (node.largest_free if left is None else left) * unit
        sums = Sums(
            1, len(cards), sum(card.used for card in cards) * unit, sum(card.free for card in cards) * unit,
            sum(card.total for card in cards) * unit, largest, node.name,
            sum(bool(card.marks & UNHEALTHY) for card in cards), sum(bool(card.marks & OVER_BOOKED) for card in cards),
        )  # fmt: skip
        pods = "\n".join(f"{one.namespace}/{one.name}" for one in node.bookings)
        return Entry(node, row, row.text(), sums, frozenset(card.model for card in cards), pods)

    def _card(self, device: Device, marks: int) -> Card:
        marks += (0 if device.healthy else UNHEALTHY) + (OVER_BOOKED if device.used > device.total else 0)
        if device.slots and not device.free_slots:
            marks += NO_SLOT
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
    if not node.published.overuse:
        return ()
    there = {one.uid: one for one in node.bookings}
    found = ((one, there[one.uid]) for one in node.published.overuse if one.uid in there)
    return tuple(Overuser(one.index, pod.namespace, pod.name, one.booked, one.used) for one, pod in found)


def _unlimited(node: NodeInfo) -> tuple[Unlimited, ...]:
    return tuple(
        Unlimited(index, pod.namespace, pod.name, state) for pod in node.bookings for index, state in pod.unlimited
    )


class WaitingPod(NamedTuple):
    """A pod that waits for a card (``model.waiting``).

    ``reasons`` are with how many nodes gave each when it was asked for last, at ``asked_at``; none if the extender was never asked.
    ``since`` is its creation, None if that is not known. ``scheduler`` is the name of its scheduler if that is not the default,
    and ``message`` that scheduler's last report if the extender was never asked.
    """

    namespace: str
    name: str
    units: int
    reason: str
    reasons: Mapping[str, int]
    times: int
    asked_at: int
    priority: int
    since: int | None
    scheduler: str
    message: str


class Facts(NamedTuple):
    """Facts about the program that are not in the book. ``contacts`` are when the API server answered last, by resource.

    ``ahead`` is by how many seconds the time since 1970 is ahead of the clock of the document.
    """

    program: str
    policy: str
    is_ready: bool
    contacts: Mapping[str, int | None]
    ahead: float = 0.0


_NOTHING: Final = Facts("", "", False, {})


@dataclass(eq=False)
class PageDocument:
    """The document of one moment, and how it came from the one before.

    ``refresh`` makes the next in slices; ``whole`` and ``changes`` are of the last that was complete.
    """

    rows: Rows = field(default_factory=Rows)
    trends: Trends = field(default_factory=Trends)
    version: int = 0
    changes: bytes = b""
    """The parts that the last refresh changed, empty for none; see ``beat`` for a document without changes."""
    waiting: Sequence[WaitingPod] = ()
    waiting_count: int = 0
    decisions: Sequence[Decision] = ()
    points: Sequence[Point] = ()
    facts: Facts = _NOTHING
    now: float = 0.0
    _sections: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def sums(self) -> Sums:
        """The sums of all nodes."""
        return self.rows.sums

    def refresh(
        self, book: Book, filter_cache: FilterCache, decisions: Decisions, facts: Facts, now: float
    ) -> Iterator[None]:
        """Become what these are now; the caller may let others work between two steps, but begin no second refresh.

        The nodes are of the moment at which it begins.
        """
        # A book that is not complete is not looked at: from then on each event would lay out its node.
        nodes = nodes_with_cards(book.snapshot()) if facts.is_ready else []
        yield
        yield from self.rows.follow(nodes)
        first: list[_Reasoned] = []
        count = 0
        for part in _parts(book.waiting()):
            found = [
                one
                for pod, wait in part
                if book.is_pending(pod.metadata) and (one := _reasoned(pod, wait, filter_cache))
            ]
            count += len(found)
            first = sorted((*first, *found), key=_by_priority)[:MOST_WAITING]
            yield
        self.waiting_count, self.waiting = count, [_waiting(one, facts.ahead) for one in first]
        self.decisions, self.facts, self.now = decisions.newest(), facts, now
        if facts.is_ready and self.trends.is_due(now):
            sums = self.sums
            self.trends.add(
                now, booked=sums.booked, free=sums.free, largest=sums.largest, waiting=self.waiting_count,
                bound=decisions.bound,
            )  # fmt: skip
        self.points = self.trends.points()
        self._compare()

    def _compare(self) -> None:
        sections: dict[str, bytes] = {
            "extender": encode_json(
                {"version": self.facts.program, "policy": self.facts.policy, "ready": self.facts.is_ready}
            ),
            "numbers": encode_json(self.sums._asdict() | {"waiting": self.waiting_count}),
            "models": encode_json(self.rows.models),
            "reasons": encode_json(self.rows.reasons),
            "waiting": encode_json(self.waiting),
            "decisions": encode_json(self.decisions),
            "trends": encode_json(self.points),
        }
        changed = {name: text for name, text in sections.items() if self._sections.get(name) != text}
        if self.rows.changed:
            changed["nodes"] = _list(map(self.rows.text_of, self.rows.changed))
        if self.rows.gone:
            changed["gone"] = encode_json(self.rows.gone)
        self._sections = sections
        self.changes = b""
        if changed:
            self.changes = self._object(changed | {"base": encode_json(self.version), **self._head(self.version + 1)})
            self.version += 1

    @property
    def whole(self) -> bytes:
        """The document."""
        return self._object({**self._head(self.version), **self._sections, "nodes": _list(self.rows.texts())})

    @property
    def beat(self) -> bytes:
        """That nothing has changed."""
        return self._object(self._head(self.version))

    def _head(self, version: int) -> dict[str, bytes]:
        values: dict[str, Any] = {"version": version, "now": round(self.now, 1), "contacts": self.facts.contacts}
        return {name: encode_json(value) for name, value in values.items()}

    @staticmethod
    def _object(parts: Mapping[str, bytes]) -> bytes:
        return b"{%b}" % b",".join(b'"%b":%b' % (name.encode(), text) for name, text in parts.items())


def _list(texts: Any) -> bytes:
    return b"[%b]" % b",".join(texts)


def _parts(pods: Sequence[tuple[Pod, Wait]]) -> Iterator[Sequence[tuple[Pod, Wait]]]:
    left = iter(pods)
    while part := tuple(islice(left, _PODS_AT_ONCE)):
        yield part


class _Reasoned(NamedTuple):
    """A pod that waits; ``cached`` is the extender's last answer if that is why."""

    pod: Pod
    wait: Wait
    reason: str
    cached: CachedAnswer | None


def _reasoned(pod: Pod, wait: Wait, filter_cache: FilterCache) -> _Reasoned | None:
    cached = filter_cache.by_uid(pod.metadata.uid)
    reason = reason_of_wait(wait, cached)
    if reason is None:
        return None
    return _Reasoned(pod, wait, reason, None if reason in NOT_REFUSED else cached)


def _by_priority(one: _Reasoned) -> tuple[int, str, str]:
    return -(one.pod.spec.priority or 0), one.pod.metadata.namespace, one.pod.metadata.name


def _waiting(one: _Reasoned, ahead: float) -> WaitingPod:
    pod, wait, reason, cached = one
    reasons, times, asked_at = ({}, 0, 0) if cached is None else (cached.reasons, cached.times, int(cached.asked_at))
    return WaitingPod(
        pod.metadata.namespace, pod.metadata.name, _units(pod), reason, reasons, times, asked_at, pod.spec.priority or 0,
        None if wait.since is None else int(wait.since - ahead),
        "" if wait.scheduler == DEFAULT_SCHEDULER else wait.scheduler,
        wait.message if cached is None and reason != GATED else "",
    )  # fmt: skip


def _units(pod: Pod) -> int:
    try:
        return pod_request(pod)
    except InvalidQuantityError:
        return 0
