"""The reference implementation extender's answers to a filter, a prioritize and an inspect. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from e2e.reference.reference_book import Book, Card
from e2e.reference.reference_pods import Faults, Object, units

_FULL: Final = "each card is too full at present"
_SMALL: Final = "no card is that big"
_NO_NODE: Final = "not a node of this cluster"
_ORIGINAL_FULL: Final = "Insufficient GPU Memory in one device"


class Question:
    """A scheduler's question, keys in any casing. Raises ValueError if it is none."""

    def __init__(self, asked: object, faults: Faults = frozenset()) -> None:
        if not isinstance(asked, dict):
            raise ValueError("the body is not an object")
        low = {key.lower(): value for key, value in asked.items()}
        if "keys-in-exact-casing" in faults:
            low = {key.lower(): asked.get(key) for key in ("Pod", "Nodes", "NodeNames", *_ORDER)}
        self.pod = low.get("pod")
        self.items: list[Object] | None = (low.get("nodes") or {}).get("items") if low.get("nodes") else None
        self.order: dict[str, Any] = {key: low.get(key.lower()) or "" for key in _ORDER}
        names = low.get("nodenames") or []
        if self.items is not None:
            names = [node["metadata"]["name"] for node in self.items]
        if not isinstance(names, list) or not all(isinstance(name, str) for name in (*names, *self.order.values())):
            raise ValueError("names are not texts")
        self.names: list[str] = list(dict.fromkeys(names))

    def amount(self, faults: Faults) -> int:
        """The units that its pod asks for. Raises ValueError."""
        if not isinstance(self.pod, dict) or not isinstance(self.pod.get("spec"), dict):
            raise ValueError("there is no Pod with a spec in the question")
        return units(self.pod, faults)


_ORDER: Final = ("PodName", "PodNamespace", "PodUID", "Node")


def filtered(book: Book, asked: Question) -> Object:
    """ExtenderFilterResult, spelled as Go does. Raises ValueError."""
    faults, amount = book.faults, asked.amount(book.faults)
    fit, full, hopeless = [], {}, {}
    cards = book.all_cards(asked.names)
    for name in asked.names:
        if _passes(book, cards.get(name), amount):
            fit.append(name)
        elif name in cards and book.could_ever_hold(cards[name], amount):
            full[name] = _FULL
        else:
            hopeless[name] = _SMALL if name in cards else _NO_NODE
    if "all-in-one-map" in faults:
        full, hopeless = full | hopeless, {}
    if "original-texts" in faults:
        full = {name: _original_text(book, name) for name in full}
    return _result(book, asked, fit, full, hopeless)


def scores(book: Book, asked: Question) -> list[Object]:
    """HostPriorityList: the fuller node is the better one. Raises ValueError."""
    amount = asked.amount(book.faults)
    cards = book.all_cards(asked.names)
    return [{"Host": name, "Score": _score(book, cards.get(name, ()), amount)} for name in asked.names]


def inspected(name: str, cards: Iterable[Card]) -> Object:
    """One node in the answer to /inspect."""
    devices = [_device(card) for card in cards]
    total, used = (sum(device[key] for device in devices) for key in ("totalGPU", "usedGPU"))
    return {"name": name, "totalGPU": total, "usedGPU": used, "devs": devices}


def errors(text: str) -> Object:
    """A filter that failed as a whole."""
    return dict.fromkeys(("Nodes", "NodeNames", "FailedNodes", "FailedAndUnresolvableNodes")) | {"Error": text}


def _passes(book: Book, cards: Sequence[Card] | None, amount: int) -> bool:
    if amount == 0:
        return bool(cards) or "cpu-only-pods-refused" not in book.faults
    return book.choose(cards or (), amount) is not None


def _result(
    book: Book, asked: Question, fit: list[str], full: Mapping[str, str], hopeless: Mapping[str, str]
) -> Object:
    faults = book.faults
    nodes: list[Object] | None = None
    if asked.items is not None:
        nodes = [node for node in asked.items if node["metadata"]["name"] in fit]
    elif "d23-nodes-for-names" in faults:
        nodes = [book.nodes[name] for name in fit if name in book.nodes]
    original = "original-texts" in faults
    answer: Object = {
        "Nodes": None if nodes is None else {"metadata": {}, "items": (nodes or None) if original else nodes},
        "NodeNames": None if (asked.items is not None and not original) else fit,
        "FailedNodes": dict(full),
        "FailedAndUnresolvableNodes": None if original else dict(hopeless),
        "Error": "",
    }
    if "null-for-list" in faults and not fit:
        answer["NodeNames"] = None
    return answer


def _original_text(book: Book, name: str) -> str:
    if name not in book.nodes:
        return f'node "{name}" not found'
    return _ORIGINAL_FULL if book.all_cards([name])[name] else f"The node {name} is not for GPU share, need skip"


def _score(book: Book, cards: Iterable[Card], amount: int) -> int:
    cards = list(cards)
    if amount == 0 or book.choose(cards, amount) is None:
        return 0
    total, used = sum(card.size for card in cards), sum(card.used for card in cards)
    if "score-over-ten" in book.faults:
        return 11 + used
    return min(10, 1 + -(-9 * used // total))


def _device(card: Card) -> Object:
    pods = [
        {"name": pod["metadata"]["name"], "namespace": pod["metadata"]["namespace"], "usedGPU": amount}
        for pod, amount in card.pods
    ]
    return {"id": card.index, "totalGPU": card.size, "usedGPU": card.used, "pods": pods}


def gpu_nodes(book: Book) -> Iterator[str]:
    """The nodes that have cards, in the order of their names."""
    for name in sorted(book.nodes):
        if book.all_cards([name])[name]:
            yield name
