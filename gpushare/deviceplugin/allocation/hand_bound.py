"""Pods that came to our node without the extender (a ``nodeName``, a DaemonSet of old): a card for each, written on it (D22).

From then on every reader counts them, and Allocate treats them as any other pod.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from gpushare import wire
from gpushare.deviceplugin.allocation.node_view import NOT_WRITTEN, NodeSnapshot, NodeView, named
from gpushare.deviceplugin.core.kept_pods import KeptPod
from gpushare.deviceplugin.core.repair import PodCard
from gpushare.errors import GpushareError
from gpushare.kube.event_recorder import EventRecorder
from gpushare.model.allocation import Allocation, Shares, encode
from gpushare.model.node import Booking, NodeInfo, Published, devices_of_cards, lay_out
from gpushare.model.placement import CURABLE, Snapshot, find, question
from gpushare.model.pod import is_deleting, request_of, slot_request, split_container
from gpushare.model.wishes import wishes_or_none

_LOG = logging.getLogger(__name__)

_FOREIGN_IDS: Final = "it has ids of another device plugin, which do not say on which of the node's cards they are"
_NO_RECORD: Final = "it was started, and the kubelet has no record that says on which of the node's cards"


def judged(
    snapshot: NodeSnapshot, wanted: Callable[[KeptPod], bool] = lambda pod: True
) -> Iterator[tuple[KeptPod, Shares | str]]:
    """Pods that ask for a card and that no valid annotation puts on one, with the cards of each, or why it gets none.

    They come in the order of admission, without those that are ending. All are judged by the extender's rules: the same wishes, and
    the same reasons. Only what has happened comes before a wish: a pod that was started with ids has the card on which they lie.
    Pods of other nodes and the policy of the cluster are not known here.
    """
    without_card = (pod for pod in snapshot.pods if pod.allocation is None and not is_deleting(pod))
    asking = (pod for pod in without_card if pod.units or (snapshot.counts_slots and not pod.keeps_rule_of_slots))
    waiting = [pod for pod in asking if wanted(pod)]
    if waiting:
        node = as_a_node(snapshot)
        for pod in waiting:
            yield pod, _cards_for(pod, snapshot, node)


def _cards_for(pod: KeptPod, snapshot: NodeSnapshot, node: NodeInfo) -> Shares | str:
    """The cards of the pod. The card of another plugin's ids cannot be known if the node has several."""
    uid = pod.metadata.uid
    held, has_ids, is_started = snapshot.holdings.cards(uid), bool(snapshot.holdings.of_pod(uid)), pod.was_started
    if snapshot.counts_slots and not pod.keeps_rule_of_slots:
        # Nothing that such a pod has can be its share: its container without a slot runs beside the plugin.
        return wire.REASON_SLOT_MISSING
    try:
        if not has_ids and not is_started:
            return _found(node, pod)
        known = held if len(held) == 1 else {card.index for card in snapshot.cards}
        if len(known) != 1:
            return _FOREIGN_IDS if has_ids else _NO_RECORD
        shares = ((min(known), pod.units),)
        return shares if is_started else _unless_refused(node, pod, shares)
    except GpushareError as error:
        return str(error)


def _found(node: NodeInfo, pod: KeptPod) -> Shares | str:
    return find(node, question(request_of(pod), Snapshot({node.name: node})))


def _unless_refused(node: NodeInfo, pod: KeptPod, shares: Shares) -> Shares | str:
    """The card that the kubelet has chosen, or the rule against it for this pod, whatever room others leave there."""
    devices = tuple(device for device in node.devices if device.index == shares[0][0])
    found = _found(lay_out(node.name, devices, node.bookings), pod)
    return found if isinstance(found, str) and found not in CURABLE else shares


def as_a_node(snapshot: NodeSnapshot, without: str = "") -> NodeInfo:
    """The node as the extender sees it: its cards, and on them the pods that have one, but for the pod of that uid."""
    # Units of a card that pods on one card may not have count as taken.
    devices = (
        one.booked(one.total - snapshot.units.get(one.index, one.total), 0)
        for one in devices_of_cards(snapshot.announced)
    )
    bookings = [_booking(one, snapshot.pod(one.uid)) for one in snapshot.pod_cards if one.uid != without]
    return lay_out("", tuple(devices), bookings, Published(snapshot.refusal or None))


def _booking(pod_card: PodCard, pod: KeptPod) -> Booking:
    metadata, units = pod.metadata, pod_card.units
    shares = tuple((card, units) for card in sorted(pod_card.cards))
    group = wishes_or_none(pod).group
    return Booking(metadata.uid, metadata.namespace, metadata.name, units, shares, slot_request(pod), group)


@dataclass(eq=False)
class HandBound:
    """Writes the card. ``clock_ns`` gives nanoseconds since 1970."""

    view: NodeView
    events: EventRecorder
    clock_ns: Callable[[], int]
    # By uid, the pods that were reported as pods without a card.
    reported: set[str] = field(default_factory=set, init=False)

    def has_work(self, snapshot: NodeSnapshot) -> bool:
        """Is there a pod to write a card on, or to report as one that gets none?"""
        found = list(judged(snapshot))
        self.reported &= {pod.metadata.uid for pod, _ in found}
        return any(pod.metadata.uid not in self.reported or not isinstance(cards, str) for pod, cards in found)

    def reason_against(self, snapshot: NodeSnapshot, is_possible: Callable[[KeptPod], bool]) -> str:
        """Why the first pod without a card that a call may be for gets none, "" if there is no such pod."""
        return next((found for _, found in judged(snapshot, is_possible) if isinstance(found, str)), "")

    async def run(
        self,
        wanted: Callable[[KeptPod], bool] = lambda pod: True,
        stop: Callable[[], bool] = lambda: False,
        *,
        reports: bool = True,
    ) -> None:
        """Give each of those ``wanted`` that are there now its cards, first bound first, until ``stop`` is true. Raises ApiError.

        Pods that come later are left for the next run: they must not keep a kubelet's call waiting. With ``reports`` the pods
        that get none are reported, once each. A kubelet's call does without, so it waits for no event.
        """
        snapshot = self.view.now()
        for uid in [pod.metadata.uid for pod, _ in judged(snapshot, wanted)]:
            if stop():
                return

            def is_this(pod: KeptPod, uid: str = uid) -> bool:
                return pod.metadata.uid == uid

            for pod, found in judged(snapshot, is_this):
                if not isinstance(found, str):
                    await self._place(pod, found, {card.index: card.units for card in snapshot.cards})
                elif reports and uid not in self.reported:
                    await self._report(pod, found)
                else:
                    continue
                # Judge the next one by what is there now: others may have changed the node meanwhile.
                snapshot = self.view.now()

    async def _report(self, pod: KeptPod, reason: str) -> None:
        self.reported.add(pod.metadata.uid)
        text = f"bound without the extender, and node {self.view.node.name} has no card for it: {reason}"
        _LOG.warning("no card pod=%s/%s uid=%s reason=%s", *named(pod), reason)
        await self.events.record("Pod", pod.metadata, wire.EVENT_NO_CARD, text)

    async def _place(self, pod: KeptPod, shares: Shares, sizes: Mapping[int, int]) -> None:
        several = {split_container(pod) or 0: shares} if len(shares) > 1 else None
        size = sum(sizes[index] for index, _ in shares)
        chosen = Allocation(shares, size, self.clock_ns(), assigned=pod.was_started, by_container=several)
        # Whatever was written there was no valid card, and must not outlive this one.
        written: dict[str, str | None] = dict.fromkeys(
            (wire.ANNOTATION_INDEX, wire.ANNOTATION_ALLOCATION, wire.ANNOTATION_REPAIR)
        )
        if self.view.repairs:
            # No extender bound it, so no extender's book is left behind.
            written[wire.ANNOTATION_EXTENDER] = wire.EXTENDER_BOOK
        try:
            await self.view.write(pod, written | encode(chosen))
        except NOT_WRITTEN as error:
            await self.view.look_again(pod.metadata.uid, error)
            return
        devices = "+".join(str(index) for index, _ in shares)
        _LOG.info("placed pod=%s/%s uid=%s device=%s units=%d", *named(pod), devices, chosen.units)
