"""The content of a node's guard: pods that are about to be bound there, and how fresh a book must be to decide without them. Pure.

A reservation is written before the Binding is sent. An extender removes it once it has seen the pod bound (anywhere), being
deleted or gone: until then the Binding may still take effect, however late. It removes its own as well if it has sent no Binding.
``seen`` is the newest resourceVersion of a pod that is bound and so has no reservation any more: a book that has not come so far
may lack that pod, so nothing may be decided on it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

import msgspec

from gpushare.bounds import RESERVATIONS
from gpushare.errors import GpushareError
from gpushare.foreign import Decoder, UnreadableError
from gpushare.model.node import Booking, NodeInfo, laid_out_with

_FORM: Final = 1


class UnreadableGuardError(GpushareError):
    """A guard that cannot be read or has no room left; nothing is bound on its node until that is repaired."""


class Reservation(msgspec.Struct, frozen=True, gc=False):
    """A pod that is about to be bound, and the identities of all extenders that have tried: a Binding of each may be on its way."""

    namespace: str
    name: str
    units: int
    cards: dict[int, int]
    by: frozenset[str]
    slots: int = 1

    def booking(self, uid: str) -> Booking:
        """The booking that the pod gets by its bind."""
        shares = tuple(sorted(self.cards.items()))
        return Booking(uid, self.namespace, self.name, self.units, shares, self.slots)


class Guard(msgspec.Struct, frozen=True, gc=False):
    """The reservations of one node, by the pod's uid, in the form of the annotation."""

    v: int
    seen: int
    pods: dict[str, Reservation]

    def with_pod(self, booking: Booking, by: str) -> Guard:
        """With one pod more, or with one that another extender tries as well. Raises UnreadableGuardError if there are too many."""
        known = self.pods.get(booking.uid)
        if known is None and RESERVATIONS.exceeded(len(self.pods) + 1):
            raise UnreadableGuardError(RESERVATIONS.refusal)
        tried = frozenset([by]) if known is None else known.by | {by}
        cards = dict(booking.shares)
        one = Reservation(booking.namespace, booking.name, booking.units, cards, tried, booking.slots)
        return Guard(_FORM, self.seen, {**self.pods, booking.uid: one})


EMPTY: Final = Guard(_FORM, 0, {})


class State(Enum):
    """The state of a pod by a book."""

    PENDING = "pending"
    BOUND = "bound"
    GONE = "gone"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Fate:
    """The fate of a pod; ``version`` is its resourceVersion as it was seen bound."""

    state: State
    version: int = 0


class _Version(msgspec.Struct, gc=False):
    v: int


_VERSION: Final = Decoder(_Version, 0)
_DECODER: Final = Decoder(Guard, 0)


def encode(guard: Guard) -> str:
    """The text of the annotation."""
    return msgspec.json.encode(guard).decode()


def decode(text: str | None) -> Guard:
    """The guard in an annotation; an empty one if there is none. Raises UnreadableGuardError."""
    if not text:
        return EMPTY
    try:
        version = _VERSION.decode(text).v
        if version != _FORM:
            raise UnreadableGuardError(
                f"the node's reservations are of form {version}, and this extender reads {_FORM} only"
            )
        guard = _DECODER.decode(text)
    except UnreadableError as error:
        # Without the text: it names pods of all namespaces, and the error becomes an event of one pod.
        raise UnreadableGuardError(f"the node's reservations cannot be read: {str(error)[:200]}") from error
    if RESERVATIONS.exceeded(len(guard.pods)):
        raise UnreadableGuardError(RESERVATIONS.refusal)
    return guard


def settle(guard: Guard, fate_of: Callable[[Booking], Fate], is_dead: Callable[[str, Reservation], bool]) -> Guard:
    """Without pods that are known to be bound or gone; ``is_dead`` knows of more that can never be bound by what was sent."""
    seen, left = guard.seen, {}
    for uid, one in guard.pods.items():
        fate = fate_of(one.booking(uid))
        if fate.state is State.BOUND:
            seen = max(seen, fate.version)
        elif fate.state is not State.GONE and not is_dead(uid, one):
            left[uid] = one
    return Guard(_FORM, seen, left)


def laid_on(node: NodeInfo, guard: Guard) -> NodeInfo:
    """The node with the reservations of pods that it does not show yet."""
    shown = {booking.uid for booking in node.bookings}
    missing = [one.booking(uid) for uid, one in guard.pods.items() if uid not in shown]
    return laid_out_with(node, [*node.bookings, *missing]) if missing else node
