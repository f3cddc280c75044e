"""Pods that came to our node past the extender (a ``nodeName``, a DaemonSet of old): a card for each, written on it (D22).

From then on every reader counts them, and Allocate treats them as any other pod.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final

from gpushare import wire
from gpushare.deviceplugin.allocation.node_view import NOT_WRITTEN, NodeView, Sight, named
from gpushare.deviceplugin.core.kept_pods import allocation_of
from gpushare.deviceplugin.core.repair import PodCard
from gpushare.errors import GpushareError
from gpushare.kube.event_recorder import EventRecorder
from gpushare.manifests import Pod
from gpushare.model.allocation import Allocation, Shares, encode
from gpushare.model.node import Booking, Device, NodeInfo, lay_out
from gpushare.model.placement import Refusal, Snapshot, find, question
from gpushare.model.pod import (
    is_deleting,
    is_finished,
    pod_request,
    request_of,
    slot_request,
    split_container,
    was_started,
)
from gpushare.model.wishes import wishes_or_none

_LOG = logging.getLogger(__name__)

_UNKNOWN_CARD: Final = Refusal(
    "it has ids of another device plugin, which do not say on which of the node's cards they are"
)


def without_card(sight: Sight) -> tuple[Pod, ...]:
    """Pods that ask for card memory and that no valid annotation puts on a card, except those that are ending."""
    return tuple(pod for pod in sight.pods if _asks(pod) and allocation_of(pod) is None and not _ends(pod))


def choose_cards(pod: Pod, sight: Sight, node: NodeInfo) -> Shares | Refusal:
    """The cards of the pod, or why it gets none.

    A pod that has ids already has the card on which they lie. Any other is judged by the extender's rules: the same wishes, and the
    same reasons. Pods of other nodes and the policy of the cluster are not known here. The card of another plugin's ids cannot be
    known if the node has several. ``node`` is ``as_a_node(sight)``.
    """
    held = sight.holdings.cards(pod.metadata.uid)
    is_held = bool(sight.holdings.of_pod(pod.metadata.uid)) or was_started(pod)
    try:
        if len(held) == 1 or is_held:
            known = held if len(held) == 1 else {card.index for card in sight.cards}
            return ((min(known), pod_request(pod)),) if len(known) == 1 else _UNKNOWN_CARD
        return find(node, question(request_of(pod), Snapshot({node.name: node})))
    except GpushareError as error:
        return Refusal(str(error))


def as_a_node(sight: Sight) -> NodeInfo:
    """The node as the extender sees it: its cards, and on them the pods that have one."""
    devices = tuple(
        Device(
            card.index,
            card.units,
            card.units - sight.units.get(card.index, card.units),
            card.healthy,
            card.uuid,
            card.model,
            card.slots if sight.counts_slots else 0,
            numa=card.numa,
        )
        for card in sight.cards
    )
    return lay_out("", devices, [_booking(one, sight.pod(one.uid)) for one in sight.pod_cards])


def _booking(pod_card: PodCard, pod: Pod) -> Booking:
    metadata, units = pod.metadata, pod_card.units
    shares = tuple((card, units) for card in sorted(pod_card.cards))
    group = wishes_or_none(pod).group
    return Booking(metadata.uid, metadata.namespace, metadata.name, units, shares, slot_request(pod), group)


def _asks(pod: Pod) -> bool:
    try:
        return pod_request(pod) > 0
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
        # By uid, the pods that were reported as pods without a card.
        self._reported: set[str] = set()

    def has_work(self, sight: Sight) -> bool:
        """Is there a pod to write a card on, or to report as one that gets none?"""
        waiting = without_card(sight)
        self._reported &= {pod.metadata.uid for pod in waiting}
        node = as_a_node(sight) if waiting else None
        return node is not None and any(
            pod.metadata.uid not in self._reported or not isinstance(choose_cards(pod, sight, node), Refusal)
            for pod in waiting
        )

    def reason_against(self, sight: Sight, is_possible: Callable[[Pod], bool]) -> str:
        """Why the first pod without a card that a call may be for gets none, "" if there is no such pod."""
        waiting, node = without_card(sight), as_a_node(sight)
        found = (choose_cards(pod, sight, node) for pod in waiting if is_possible(pod))
        return next((one.reason for one in found if isinstance(one, Refusal)), "")

    async def run(
        self,
        look: Callable[[], Sight],
        wanted: Callable[[Pod], bool] = lambda pod: True,
        stop: Callable[[], bool] = lambda: False,
        *,
        reports: bool = True,
    ) -> None:
        """Give each of those ``wanted`` its cards, first bound first, until ``stop`` is true. Raises ApiError.

        With ``reports`` the pods that get none are reported, once each. A kubelet's call does without, so it waits for no event.
        """
        sight = look()
        node = as_a_node(sight)
        for pod in filter(wanted, without_card(sight)):
            if stop():
                return
            found = choose_cards(pod, sight, node)
            if not isinstance(found, Refusal):
                await self._place(pod, found, {card.index: card.units for card in sight.cards})
            elif reports and pod.metadata.uid not in self._reported:
                await self._report(pod, found.reason)
            else:
                continue
            # Others may have changed the node since.
            sight = look()
            node = as_a_node(sight)

    async def _report(self, pod: Pod, reason: str) -> None:
        self._reported.add(pod.metadata.uid)
        text = f"bound past the extender, and node {self._view.node.name} has no card for it: {reason}"
        _LOG.warning("no card pod=%s/%s uid=%s reason=%s", *named(pod), reason)
        await self._events.record("Pod", pod.metadata, wire.EVENT_NO_CARD, text)

    async def _place(self, pod: Pod, shares: Shares, sizes: Mapping[int, int]) -> None:
        several = {split_container(pod) or 0: shares} if len(shares) > 1 else None
        size = sum(sizes[index] for index, _ in shares)
        chosen = Allocation(shares, size, self._clock_ns(), assigned=was_started(pod), by_container=several)
        # Whatever was written there was no valid card, and must not outlive this one.
        written: dict[str, str | None] = dict.fromkeys(
            (wire.ANNOTATION_INDEX, wire.ANNOTATION_ALLOCATION, wire.ANNOTATION_REPAIR)
        )
        if self._view.repairs:
            # No extender bound it, so no extender's book is left behind.
            written[wire.ANNOTATION_EXTENDER] = wire.EXTENDER_BOOK
        try:
            await self._view.write(pod, written | encode(chosen))
        except NOT_WRITTEN as error:
            await self._view.look_again(pod.metadata.uid, error)
            return
        devices = "+".join(str(index) for index, _ in shares)
        _LOG.info("placed pod=%s/%s uid=%s device=%s units=%d", *named(pod), devices, chosen.units)
