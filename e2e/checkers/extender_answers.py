"""The extender's answers against the API and the cards: its book (``/inspect``), and its binds. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from e2e import spec
from e2e.checkers.history import Asked, Entry, Finding, Listed, Object, State, name_of
from e2e.checkers.overcommit import booked_in_api, shares_or_none, size_of

DIFFERS: Final = "book differs"


class _Pod(msgspec.Struct, rename={"used": "usedGPU"}):
    used: int


class _Device(msgspec.Struct, rename={"total": "totalGPU", "used": "usedGPU"}):
    id: int
    total: int
    used: int
    pods: list[_Pod] | None = None


class _BookNode(msgspec.Struct, rename={"used": "usedGPU"}):
    name: str
    used: int | None = None
    devs: list[_Device] | None = None


class _Book(msgspec.Struct):
    nodes: list[_BookNode] | None = None


def book_beyond_cards(state: State, entry: Entry) -> Iterator[Finding]:
    """The extender's book has the true size of each card, no more in use than that, and books nothing on a node that is gone."""
    if _is_book(entry) and not isinstance(book := _read(entry), _Book):
        yield Finding("book", entry.at, book)
        return
    for node, device in _devices(entry):
        if state.nodes and node not in state.nodes:
            if device is not None and device.used:
                text = f"{device.used} units are in use in the extender's book, and no Node has this name"
                yield Finding("book", entry.at, text, node=node, card=device.id)
        elif device is not None:
            if node in state.cards and device.total != (size := size_of(state, node, device.id)):
                text = f"{device.total} units in the extender's book, it has {size}"
                yield Finding("book", entry.at, text, node=node, card=device.id)
            if device.used > device.total:
                text = f"{device.used} of {device.total} units are in use in the extender's book"
                yield Finding("book", entry.at, text, node=node, card=device.id)


def book_differs(state: State, entry: Entry) -> Iterator[Finding]:
    """The extender's book has as much in use on each card as the annotations of its pods."""
    booked = booked_in_api(state.pods.values()) if _is_book(entry) else {}
    for node, device in _devices(entry):
        if device is not None and device.used != (in_api := booked.get((node, device.id), 0)):
            text = f"{device.used} in the extender's book, {in_api} in the API"
            yield Finding(DIFFERS, entry.at, text, node=node, card=device.id)


def book_adds_up(_: State, entry: Entry) -> Iterator[Finding]:
    """The extender's book is of one moment: what is in use on a card is that of its pods, and on a node that of its cards."""
    book = _read(entry) if _is_book(entry) else ""
    for node in (book.nodes or ()) if isinstance(book, _Book) else ():
        for device in node.devs or ():
            if device.pods is not None and (parts := sum(pod.used for pod in device.pods)) != device.used:
                text = f"{device.used} units are in use in the extender's book, and {parts} by its pods there"
                yield Finding("book adds up", entry.at, text, node=node.name, card=device.id)
        if node.used is not None and node.used != (parts := sum(device.used for device in node.devs or ())):
            text = f"{node.used} units are in use in the extender's book, and {parts} on its cards there"
            yield Finding("book adds up", entry.at, text, node=node.name)


def kept_binds(state: State, entry: Entry) -> Iterator[Finding]:
    """A pod is on the node to which its bind was answered without an error, and has a card."""
    for asked, pod in _binds(state, entry):
        node, where = asked.question.get("Node"), pod["spec"].get("nodeName")
        if not is_refusal(asked) and (where != node or not shares_or_none(pod)):
            card = "a card" if shares_or_none(pod) else "no card"
            text = f"its bind to {node} was answered without an error; it is on {where or 'no node'} and has {card}"
            yield Finding("kept bind", asked.at, text, name_of(pod))


def refused_binds(state: State, entry: Entry) -> Iterator[Finding]:
    """After a refused bind, a pod that is not bound since has no card by its annotations."""
    for asked, pod in _binds(state, entry):
        if is_refusal(asked) and not pod["spec"].get("nodeName") and shares_or_none(pod) != {}:
            text = f"its bind to {asked.question.get('Node')} was refused, and its annotations name a card"
            yield Finding("refused bind", asked.at, text, name_of(pod))


def is_refusal(asked: Asked) -> bool:
    """Was the bind refused? By the error in the answer, or by the answer's status."""
    error = asked.answer.get("Error") if isinstance(asked.answer, Mapping) else "no answer that can be read"
    return asked.status >= 400 or bool(error)


def _binds(state: State, entry: Entry) -> Iterator[tuple[Asked, Object]]:
    """Each bind that was asked for, with its pod as a later look shows it."""
    for asked in state.binds if isinstance(entry, Listed) else ():
        if isinstance(asked.question, Mapping):
            pod = state.pods.get(str(asked.question.get("PodUID")))
            if pod is not None:
                yield asked, pod


def _is_book(entry: Entry) -> bool:
    return isinstance(entry, Asked) and entry.path.startswith(spec.INSPECT)


def _read(entry: Entry) -> _Book | str:
    """The book, or the reason why it cannot be read."""
    answer: Any = entry.answer if isinstance(entry, Asked) else None
    try:
        return msgspec.convert(answer, _Book)
    except msgspec.ValidationError as error:
        return f"the extender's book cannot be read: {error}"


def _devices(entry: Entry) -> Iterator[tuple[str, _Device | None]]:
    """Each card of each node of a book; None for a node without cards."""
    book = _read(entry) if _is_book(entry) else ""
    for node in (book.nodes or ()) if isinstance(book, _Book) else ():
        yield from ((node.name, device) for device in node.devs or (None,))
