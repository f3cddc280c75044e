"""The booking of a bound pod, from its spec, its annotations and what is believed of it already. Pure."""

from __future__ import annotations

from typing import Final

from gpushare.errors import GpushareError
from gpushare.extender.core.belief import Belief, believe, problem_of
from gpushare.manifests import Pod
from gpushare.model.allocation import Allocation, container_requests, decode
from gpushare.model.eviction import evictable_of
from gpushare.model.node import Booking
from gpushare.model.pod import pod_request, slot_request, was_started
from gpushare.model.wishes import wishes_or_none

# How a problem begins that is a change which was not believed; the pod is booked.
IGNORED: Final = "later changes of its annotations are not believed"


def booking_of(
    pod: Pod, known: Belief | None = None, *, has_gap: bool = True
) -> tuple[Booking, Belief | None, str | None]:
    """The booking of a bound pod, the belief about its cards, and what is wrong with it.

    Unreadable numbers book nothing, and an allocation that cannot be read books no card unless one is ``known``.
    """
    units = slots = 0
    belief, problem = known, None
    try:
        units, slots = pod_request(pod), slot_request(pod)
    except GpushareError as error:
        problem = str(error)
    if units > 0:
        named, problem = _named(pod, units)
        belief = believe(known, named, is_started=was_started(pod), has_gap=has_gap)
        if known is not None and belief is not None:
            ignored = problem_of(belief, named, problem)
            problem = None if ignored is None else f"{IGNORED}: {ignored}"
    metadata = pod.metadata
    # While the device plugin changes a pod's card it is on both: nothing may be put onto its present card or its next one.
    shares = belief.booked if belief is not None and units > 0 else ()
    card_size = belief.card_size if belief is not None else 0
    evictable = evictable_of(pod) if units > 0 else None
    booking = Booking(
        metadata.uid,
        metadata.namespace,
        metadata.name,
        units,
        shares,
        slots,
        wishes_or_none(pod).group,
        evictable,
        card_size,
    )
    return booking, belief, problem


def _named(pod: Pod, units: int) -> tuple[Allocation | None, str | None]:
    """The allocation in a pod's annotations, and why it cannot be read."""
    try:
        return decode(pod.metadata.annotations, units, container_requests(pod)), None
    except GpushareError as error:
        return None, str(error)
