"""The extender's book: which pod has how much of which card. No I/O; what is asked of it is true at that moment."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from e2e.reference.reference_pods import COUNT, UNITS, Faults, Object, card_sizes, is_over, node_of, shares, whole

_WORD: Final = 1 << 64


@dataclass(slots=True)
class Card:
    """One card of a node, and what is booked on it."""

    index: int
    size: int
    is_healthy: bool
    pods: list[tuple[Object, int]] = field(default_factory=list)

    @property
    def used(self) -> int:
        """The units that are booked."""
        return sum(amount for _, amount in self.pods)


class Book:
    """``nodes`` by name, ``pods`` by uid, ``banned`` cards by node."""

    def __init__(self, faults: Faults) -> None:
        self.faults = faults
        self.nodes: dict[str, Object] = {}
        self.pods: dict[str, Object] = {}
        self.banned: dict[str, frozenset[int]] = {}
        self._assumed: dict[str, tuple[str, int, int, Object]] = {}
        self._frozen: dict[str, list[tuple[int, bool]]] = {}

    def put(self, pod: Object) -> None:
        """The pod as it is now; a binding that the book knows of is not forgotten for an older state."""
        uid = pod["metadata"]["uid"]
        if node_of(pod):
            self._assumed.pop(uid, None)
        elif node_of(self.pods.get(uid, pod)):
            return
        self.pods[uid] = pod

    def drop(self, uid: str) -> None:
        """It is gone."""
        self.pods.pop(uid, None)
        self._assumed.pop(uid, None)

    def find(self, namespace: str, name: str) -> Object | None:
        """The pod of this name."""
        wanted = (namespace, name)
        for pod in self.pods.values():
            if (pod["metadata"]["namespace"], pod["metadata"]["name"]) == wanted:
                return pod
        return None

    def assume(self, pod: Object, node: str, card: int, amount: int) -> None:
        """It is about to be bound."""
        self._assumed[pod["metadata"]["uid"]] = (node, card, amount, pod)

    def forget(self, uid: str) -> None:
        """It will not be bound."""
        self._assumed.pop(uid, None)

    def all_cards(self, names: Iterable[str], without: str = "") -> dict[str, list[Card]]:
        """The cards of these nodes, of those that are known; the pod with uid ``without`` is left out."""
        found = {name: self._cards(name) for name in names if name in self.nodes}
        for uid, held in self._held().items():
            for node, index, amount, pod in held if uid != without else ():
                for card in found.get(node, ()):
                    if card.index == index:
                        card.pods.append((pod, amount))
        return found

    def free(self, card: Card) -> int:
        """The units of a card that another pod may have."""
        if not card.is_healthy:
            return 0
        if "d12-room-wraps" in self.faults:
            return (card.size - card.used) % _WORD
        return card.size - card.used + ("off-by-one-unit" in self.faults)

    def choose(self, cards: Iterable[Card], amount: int) -> Card | None:
        """The fullest card that has room."""
        fitting = [card for card in cards if amount <= self.free(card)]
        return min(fitting, key=lambda card: (self.free(card), card.index), default=None)

    def could_ever_hold(self, cards: Iterable[Card], amount: int) -> bool:
        """Is a healthy card large enough?"""
        return any(amount <= card.size for card in cards if card.is_healthy)

    def _cards(self, name: str) -> list[Card]:
        banned = self.banned.get(name, frozenset())
        sizes = enumerate(self._sizes(name))
        blind = "d10-unhealthy-cards-offered" in self.faults
        return [Card(index, size, (is_healthy or blind) and index not in banned) for index, (size, is_healthy) in sizes]

    def _sizes(self, name: str) -> list[tuple[int, bool]]:
        sizes = card_sizes(self.nodes[name], self.faults)
        if "d13-nodes-frozen" in self.faults and sizes:
            return self._frozen.setdefault(name, sizes)
        if "d14-frozen-while-empty" in self.faults:
            count = whole(self.nodes[name]["status"].get("capacity", {}).get(COUNT, 0))
            return (
                self._frozen.setdefault(name, [(0, True)] * count)
                if count and not sizes
                else self._frozen.get(name, sizes)
            )
        return sizes

    def _held(self) -> Mapping[str, list[tuple[str, int, int, Object]]]:
        """Node, card, units and pod of all that is booked, by uid."""
        held: dict[str, list[tuple[str, int, int, Object]]] = defaultdict(list)
        for uid, pod in self.pods.items():
            if node_of(pod) and not self._is_free_of(pod):
                written = (pod["metadata"].get("annotations") or {}) if "d30-author-believed" in self.faults else {}
                held[uid] = [
                    (node_of(pod), card, int(written.get(UNITS, amount)), pod) for card, amount in shares(pod).items()
                ]
        for uid, one in self._assumed.items():
            held[uid] = [one]
        return held

    def _is_free_of(self, pod: Object) -> bool:
        """Has it ended? Its containers may run on while it is being deleted."""
        if "d15-freed-when-deletion-starts" in self.faults and pod["metadata"].get("deletionTimestamp"):
            return True
        return is_over(pod) and "finished-still-counted" not in self.faults


def bans(text: str, faults: Faults = frozenset()) -> frozenset[int]:
    """The cards that a ConfigMap of the original's form names; a text that is no number names none."""
    found = set()
    for one in text.split(","):
        if one.strip().isdecimal():
            found.add(int(one))
        elif "d11-bad-ban-is-card-0" in faults:
            found.add(0)
    return frozenset(found)
