"""The content of a node's guard: pods that are about to be bound there, and how fresh a book must be to decide without them. Pure.

A reservation is written before the Binding is sent. An extender removes it once it has seen the pod bound (anywhere) or gone:
until then the Binding may still take effect, however late. ``seen`` is the newest resourceVersion of a pod whose reservation was
removed because it is bound: a book that has not come so far may lack that pod, so nothing may be decided on it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

import msgspec

from gpushare.bounds import RESERVATIONS
from gpushare.errors import GpushareError
from gpushare.model.node import Booking, NodeInfo, laid_anew

_FORM: Final = 1


class UnreadableGuardError(GpushareError):
    """A guard that cannot be read or has no room left; nothing is bound on its node until that is put right."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """A pod that is about to be bound, and the identities of all extenders that have tried: a Binding of each may be on its way."""

    booking: Booking
    by: frozenset[str]


@dataclass(frozen=True, slots=True)
class Guard:
    """The reservations of one node, by the pod's uid."""

    reserved: Mapping[str, Reservation] = field(default_factory=dict)
    seen: int = 0

    def with_pod(self, booking: Booking, by: str) -> Guard:
        """With one pod more, or with one that another extender tries as well. Raises UnreadableGuardError if there are too many."""
        known = self.reserved.get(booking.uid)
        if known is None and RESERVATIONS.exceeded(len(self.reserved) + 1):
            raise UnreadableGuardError(RESERVATIONS.refusal)
        tried = frozenset([by]) if known is None else known.by | {by}
        return replace(self, reserved={**self.reserved, booking.uid: Reservation(booking, tried)})


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


class _Reserved(msgspec.Struct, gc=False):
    namespace: str
    name: str
    units: int
    cards: dict[str, int]
    by: list[str]
    slots: int = 1


class _Version(msgspec.Struct, gc=False):
    v: int


class _Form(msgspec.Struct, gc=False):
    v: int
    seen: int
    pods: dict[str, _Reserved]


_VERSION: Final = msgspec.json.Decoder(_Version)
_DECODER: Final = msgspec.json.Decoder(_Form)


def encode(guard: Guard) -> str:
    """The text of the annotation."""
    pods = {
        uid: _Reserved(
            one.booking.namespace,
            one.booking.name,
            one.booking.units,
            {str(card): units for card, units in one.booking.shares},
            sorted(one.by),
            one.booking.slots,
        )
        for uid, one in guard.reserved.items()
    }
    return msgspec.json.encode(_Form(_FORM, guard.seen, pods)).decode()


def decode(text: str | None) -> Guard:
    """The guard in an annotation; an empty one if there is none. Raises UnreadableGuardError."""
    if not text:
        return Guard()
    try:
        version = _VERSION.decode(text).v
        if version != _FORM:
            raise UnreadableGuardError(
                f"the node's reservations are of form {version}, and this extender reads {_FORM} only"
            )
        form = _DECODER.decode(text)
        if RESERVATIONS.exceeded(len(form.pods)):
            raise UnreadableGuardError(RESERVATIONS.refusal)
        reserved = {
            uid: Reservation(
                Booking(uid, one.namespace, one.name, one.units, _shares(one.cards), one.slots), frozenset(one.by)
            )
            for uid, one in form.pods.items()
        }
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        # Without the text: it names pods of all namespaces, and the error becomes an event of one pod.
        raise UnreadableGuardError(f"the node's reservations cannot be read: {str(error)[:200]}") from error
    return Guard(reserved, form.seen)


def _shares(cards: Mapping[str, int]) -> tuple[tuple[int, int], ...]:
    return tuple(sorted((int(card), units) for card, units in cards.items()))


def settle(guard: Guard, fate_of: Callable[[Booking], Fate], is_dead: Callable[[Reservation], bool]) -> Guard:
    """Without pods that are known to be bound or gone; ``is_dead`` knows of more that can never be bound by what was sent."""
    seen, left = guard.seen, {}
    for uid, one in guard.reserved.items():
        fate = fate_of(one.booking)
        if fate.state is State.BOUND:
            seen = max(seen, fate.version)
        elif fate.state is not State.GONE and not is_dead(one):
            left[uid] = one
    return Guard(left, seen)


def laid_on(node: NodeInfo, guard: Guard) -> NodeInfo:
    """The node with the reservations of pods that it does not show yet."""
    shown = {booking.uid for booking in node.bookings}
    missing = [one.booking for uid, one in guard.reserved.items() if uid not in shown]
    if not missing:
        return node
    return laid_anew(node, [*node.bookings, *missing])
