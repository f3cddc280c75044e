"""Which card a pod has, and how that is written on it.

The extender writes these annotations with the Binding; the device plugin turns ASSIGNED to ``true``. Formats are the
original's (``data/upstream/extender/bind.json``): decimal numbers, nanoseconds since 1970, ``true``/``false``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Final

import msgspec

from gpushare import wire
from gpushare.bounds import ALLOCATION_CHARACTERS, ALLOCATION_ENTRIES
from gpushare.errors import GpushareError, InvalidAllocationError, InvalidQuantityError
from gpushare.foreign import Decoder, UnreadableError
from gpushare.manifests import Pod
from gpushare.model.node import Booking
from gpushare.model.pod import container_request, pod_request
from gpushare.model.quantity import is_number

# ``(card index, units)``, by index.
Shares = tuple[tuple[int, int], ...]

_Whole = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
# By container, by card: units.
_MANY_CARDS: Final = Decoder(dict[_Whole, dict[_Whole, _Whole]], 0)


class Allocation(msgspec.Struct, frozen=True, gc=False):
    """The cards of a pod: ``shares`` are ``(card index, units)`` pairs, by index, and nearly always one.

    ``device_units`` is the size of the card when it was chosen (of several cards the sum), ``assume_time`` when that was (ns
    since 1970).
    ``repair`` is the other card of a pod whose card is being changed, ``by_container`` the shares of each container
    (by its position among the pod's containers) if the multi-card annotation names them.
    """

    shares: Shares
    device_units: int = 0
    assume_time: int = 0
    assigned: bool = False
    repair: int | None = None
    by_container: Mapping[int, Shares] | None = None

    @property
    def units(self) -> int:
        """Units in all."""
        return sum(units for _, units in self.shares)

    @property
    def card_size(self) -> int:
        """Units of one of its cards when they were chosen (of several the mean), 0 if that is not known."""
        return self.device_units // len(self.shares)

    @property
    def index(self) -> int:
        """The first card."""
        return self.shares[0][0]

    @property
    def booked(self) -> Shares:
        """The units that no other pod may have: the shares, and the same amount of the other card while a repair is under way."""
        if self.repair is None:
            return self.shares
        return tuple(sorted([*self.shares, (self.repair, self.units)]))


def encode(allocation: Allocation) -> dict[str, str]:
    """The five annotations of an allocation on one card; of one on several, ``by_container`` in the place of the index.

    If the pod's author wrote the other form, that annotation must be blanked: see ``blanks``.
    """
    if allocation.by_container is not None:
        cards = {str(at): {str(index): units for index, units in of} for at, of in allocation.by_container.items()}
        where = {wire.ANNOTATION_ALLOCATION: msgspec.json.encode(cards).decode()}
    elif len(allocation.shares) == 1:
        where = {wire.ANNOTATION_INDEX: str(allocation.index)}
    else:
        raise InvalidAllocationError(
            f"an allocation on {len(allocation.shares)} cards must say which container has which"
        )
    return where | {
        wire.ANNOTATION_DEVICE_UNITS: str(allocation.device_units),
        wire.ANNOTATION_POD_UNITS: str(allocation.units),
        wire.ANNOTATION_ASSIGNED: "true" if allocation.assigned else "false",
        wire.ANNOTATION_ASSUME_TIME: str(allocation.assume_time),
    }


def blanks(annotations: Mapping[str, str] | None, written: Mapping[str, str]) -> dict[str, str]:
    """Empty values for the pod's own annotations about its card that are not written now: its author may not choose (D30)."""
    ours = (wire.ANNOTATION_INDEX, wire.ANNOTATION_ALLOCATION, wire.ANNOTATION_REPAIR)
    return {name: "" for name in ours if name in (annotations or {}) and name not in written}


def read_allocation(pod: Pod, annotations: Mapping[str, str] | None) -> tuple[Allocation | None, str | None]:
    """The allocation that annotations name for a pod that asks for card memory, and why it cannot be read."""
    try:
        request = pod_request(pod)
        several = request > 0 and annotations and annotations.get(wire.ANNOTATION_ALLOCATION)
        containers = [container_request(one) for one in pod.spec.containers or ()] if several else ()
        return (decode(annotations, request, containers) if request > 0 else None), None
    except GpushareError as error:
        return None, str(error)


def written_booking(pod: Pod) -> tuple[Booking, Allocation | None, str | None]:
    """The booking of a bound pod as its annotations name it, their allocation, and why they cannot be read.

    The booking is of no units if the pod's request cannot be read.
    """
    meta = pod.metadata
    allocation, problem = read_allocation(pod, meta.annotations)
    try:
        units = pod_request(pod)
    except InvalidQuantityError:
        units = 0
    shares, card_size = ((), 0) if allocation is None else (allocation.shares, allocation.card_size)
    return Booking(meta.uid, meta.namespace, meta.name, units, shares, card_size=card_size), allocation, problem


def decode(
    annotations: Mapping[str, str] | None, request: int, containers: Sequence[int] | None = None
) -> Allocation | None:
    """The allocation that annotations name, or None if there is none.

    ``request`` is what the pod's spec asks for: that much is booked on the card, whatever the POD annotation claims
    (the author of a pod may write any annotation). The multi-card annotation wins over the index, unless it is empty (blanked); it
    must add up to the request, and for each of the ``containers`` to what that one asks for, if they are given.
    Raises InvalidAllocationError for an index that is no card number, numbers that are none, and amounts that differ.
    """
    if not annotations:
        return None
    by_container = None
    if several := annotations.get(wire.ANNOTATION_ALLOCATION):
        by_container = _decode_many(several)
        shares = sum_by_card(by_container)
        _check_amounts(by_container, request, containers)
    elif wire.ANNOTATION_INDEX in annotations:
        shares = ((_number(wire.ANNOTATION_INDEX, annotations[wire.ANNOTATION_INDEX]), request),)
    else:
        return None
    return Allocation(
        shares=shares,
        device_units=_number(wire.ANNOTATION_DEVICE_UNITS, annotations.get(wire.ANNOTATION_DEVICE_UNITS, "0")),
        assume_time=_number(wire.ANNOTATION_ASSUME_TIME, annotations.get(wire.ANNOTATION_ASSUME_TIME, "0")),
        assigned=annotations.get(wire.ANNOTATION_ASSIGNED) == "true",
        repair=_repair(annotations, shares[0][0]) if by_container is None else None,
        by_container=by_container,
    )


def _check_amounts(given: Mapping[int, Shares], request: int, containers: Sequence[int] | None) -> None:
    """Raises InvalidAllocationError if the multi-card annotation gives another amount than is asked for."""
    by_position = {position: sum(units for _, units in shares) for position, shares in given.items()}
    total = sum(by_position.values())
    if total != request:
        raise InvalidAllocationError(
            f"{wire.ANNOTATION_ALLOCATION} names {total} units, and the pod asks for {request}"
        )
    asked = by_position if containers is None else dict(enumerate(containers))
    for position in sorted({*by_position, *asked}):
        named, wanted = by_position.get(position, 0), asked.get(position, 0)
        if named != wanted:
            raise InvalidAllocationError(
                f"{wire.ANNOTATION_ALLOCATION} names {named} units for container {position}, which asks for {wanted}"
            )


def _repair(annotations: Mapping[str, str], index: int) -> int | None:
    """The other card; a mark that is no card number is no mark: the index alone is a complete allocation."""
    text = annotations.get(wire.ANNOTATION_REPAIR, "")
    return int(text) if is_number(text) and int(text) != index else None


def _decode_many(text: str) -> Mapping[int, Shares]:
    """``{"<container>": {"<card>": units}}``. Raises InvalidAllocationError."""
    what = f"{wire.ANNOTATION_ALLOCATION} {text[:200]!r}"
    if ALLOCATION_CHARACTERS.exceeded(len(text)):
        raise InvalidAllocationError(f"{what}: {ALLOCATION_CHARACTERS.refusal}")
    try:
        containers = _MANY_CARDS.decode(text)
    except UnreadableError as error:
        raise InvalidAllocationError(f"{what}: {error}") from error
    if ALLOCATION_ENTRIES.exceeded(sum(map(len, containers.values()))):
        raise InvalidAllocationError(f"{what}: {ALLOCATION_ENTRIES.refusal}")
    if not any(containers.values()):
        raise InvalidAllocationError(f"{what} names no card")
    return {position: tuple(sorted(cards.items())) for position, cards in containers.items()}


def sum_by_card(containers: Mapping[int, Shares]) -> Shares:
    """What a pod has in all."""
    by_card: Counter[int] = Counter()
    for shares in containers.values():
        by_card.update(dict(shares))
    return tuple(sorted(by_card.items()))


def _number(name: str, text: str) -> int:
    if not is_number(text):
        raise InvalidAllocationError(f"annotation {name} is {text[:200]!r}, not a number from 0 up")
    return int(text)
