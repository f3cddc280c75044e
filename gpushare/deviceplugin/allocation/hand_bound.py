"""Pods that came to our node past the extender (a ``nodeName``, a DaemonSet of old): a card for each, written on it (D22).

From then on every reader counts them, and Allocate treats them as any other pod.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable

from gpushare import wire
from gpushare.deviceplugin.allocation.node_view import NodeView, Sight
from gpushare.deviceplugin.kept_pods import allocation_of
from gpushare.errors import GpushareError
from gpushare.kube.errors import REFUSALS, ConflictError, NotFoundError
from gpushare.kube.events import EventRecorder
from gpushare.manifests import Pod
from gpushare.model.allocation import Allocation, encode
from gpushare.model.cards import CardFacts
from gpushare.model.pod import is_deleting, is_finished, request_of, slot_request, was_started

_LOG = logging.getLogger(__name__)


def without_card(sight: Sight) -> tuple[Pod, ...]:
    """Pods that ask for card memory and that no valid annotation puts on a card, but for those that are ending."""
    return tuple(pod for pod in sight.pods if _asks(pod) and allocation_of(pod) is None and not _ends(pod))


def choose_card(pod: Pod, sight: Sight) -> CardFacts | None:
    """The card that the pod has, where it has ids already; else the smallest room that holds it, as the extender does.

    None where no card has room, and where it has ids that do not say a card: another plugin's, on a node of several.
    """
    held = sight.holdings.cards(pod.metadata.uid)
    if len(held) == 1:
        return next(card for card in sight.cards if card.index in held)
    if sight.holdings.of_pod(pod.metadata.uid) or was_started(pod):
        return sight.cards[0] if len(sight.cards) == 1 else None
    request = request_of(pod)
    booked = sight.booked(pod.metadata.uid)
    slots = _slots(sight) if sight.counts_slots else Counter[int]()
    fitting = [
        card
        for card in sight.cards
        if card.healthy
        and card.units - booked[card.index] >= request.units
        and (not sight.counts_slots or card.slots - slots[card.index] >= request.slots)
    ]
    return min(fitting, key=lambda card: (card.units - booked[card.index], card.index), default=None)


def _slots(sight: Sight) -> Counter[int]:
    """Slots of each card that are spoken for."""
    slots: Counter[int] = Counter()
    for one in sight.standings:
        slots.update(dict.fromkeys(one.cards, slot_request(sight.pod(one.uid))))
    return slots


def _asks(pod: Pod) -> bool:
    try:
        return request_of(pod).units > 0
    except GpushareError:
        return False


def _ends(pod: Pod) -> bool:
    return is_finished(pod) or is_deleting(pod)


class HandBound:
    """Writes the card. ``clock_ns`` gives nanoseconds since 1970."""

    def __init__(self, view: NodeView, events: EventRecorder, clock_ns: Callable[[], int]) -> None:
        self._view = view
        self._events = events
        self._clock_ns = clock_ns
        # Who was told already that there is no room.
        self._told: set[str] = set()

    def has_work(self, sight: Sight) -> bool:
        """Is there a pod to write a card on, or to tell that there is none?"""
        waiting = without_card(sight)
        self._told &= {pod.metadata.uid for pod in waiting}
        return any(pod.metadata.uid not in self._told or choose_card(pod, sight) for pod in waiting)

    async def run(
        self,
        look: Callable[[], Sight],
        wanted: Callable[[Pod], bool] = lambda pod: True,
        stop: Callable[[], bool] = lambda: False,
    ) -> None:
        """Give each of those ``wanted`` its card, first bound first, until ``stop`` says so. Raises ApiError."""
        for pod in filter(wanted, without_card(look())):
            if stop():
                return
            sight = look()
            card = choose_card(pod, sight)
            if card is not None:
                await self._place(pod, card)
            elif pod.metadata.uid not in self._told:
                self._told.add(pod.metadata.uid)
                units = request_of(pod).units
                text = f"bound past the extender, and no card of node {self._view.node.name} has {units} units free"
                _LOG.warning("no card pod=%s/%s uid=%s units=%d", *_named(pod), units)
                await self._events.record("Pod", pod.metadata, "GPUShareNoCard", text)

    async def _place(self, pod: Pod, card: CardFacts) -> None:
        units = request_of(pod).units
        chosen = Allocation(((card.index, units),), card.units, self._clock_ns(), assigned=was_started(pod))
        # Whatever was written there was no valid card, and must not outlive this one.
        written: dict[str, str | None] = dict.fromkeys((wire.ANNOTATION_ALLOCATION, wire.ANNOTATION_REPAIR))
        if self._view.repairs:
            # Nobody bound it, so nobody's book would be left behind.
            written[wire.ANNOTATION_EXTENDER] = wire.EXTENDER_BOOK
        try:
            await self._view.write(pod, written | encode(chosen))
        except (ConflictError, NotFoundError) as error:
            _LOG.info("gone before it got its card pod=%s/%s uid=%s error=%s", *_named(pod), error)
            await self._view.refresh()
            return
        except REFUSALS as error:
            # Its own trouble: other pods' admissions and repairs go on.
            _LOG.warning("cannot write its card pod=%s/%s uid=%s error=%s", *_named(pod), error)
            self._view.refused[pod.metadata.uid] = str(error)
            await self._view.refresh()
            return
        _LOG.info("placed pod=%s/%s uid=%s device=%d units=%d", *_named(pod), card.index, units)


def _named(pod: Pod) -> tuple[str, str, str]:
    return pod.metadata.namespace, pod.metadata.name, pod.metadata.uid
