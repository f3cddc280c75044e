"""Before a container starts: is it on the card that its pod's annotation names? If not, the annotation is repaired first.

An error here only makes the kubelet try again, so a container is held until its annotation is right.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gpushare import wire
from gpushare.deviceplugin.allocation.exchange import Exchange
from gpushare.deviceplugin.allocation.hand_bound import HandBound
from gpushare.deviceplugin.allocation.node_view import NodeSnapshot, NodeView, named
from gpushare.deviceplugin.core.bookings import why_fixed
from gpushare.deviceplugin.core.candidates import container_cards
from gpushare.deviceplugin.core.devices import DeviceIds
from gpushare.deviceplugin.core.holdings import Grant
from gpushare.deviceplugin.core.kept_pods import KeptPod, differences
from gpushare.deviceplugin.core.repair import PodCard, has_room
from gpushare.errors import GpushareError
from gpushare.manifests import ObjectMeta
from gpushare.model.pod import is_assigned

_LOG = logging.getLogger(__name__)

# A kubelet waits 30 s for this answer and then tries again.
_LIST_ATTEMPTS: Final = 3


class HoldReason(enum.Enum):
    """Why. The value is what a machine reads."""

    OWNER_UNKNOWN = "OwnerUnknown"
    """The kubelet does not say yet whose the ids are, or the API does not show the pod."""
    NO_CARD = "NoCard"
    """No annotation names a card, and it gets none."""
    NO_ROOM = "NoRoom"
    """The card that the container has is booked for others, which may leave."""
    SETTLING = "Settling"
    """The card's room is free; binds decided before the mark was seen may still be under way."""
    REFUSED = "WriteRefused"
    """The API server refuses to change the pod's annotations, for now."""
    FIXED = "CardIsFixed"
    """The card that is written must not be changed."""
    SEVERAL_CARDS = "SeveralCards"
    """The ids are of several cards though the annotation names one, or of others than the several that it names."""
    WRONG_AMOUNT = "WrongAmount"
    """The container was told another pod's amount, and what it was told cannot be changed."""

    @property
    def is_final(self) -> bool:
        """Does no retry help, but only a new pod?"""
        return self in (HoldReason.FIXED, HoldReason.SEVERAL_CARDS, HoldReason.WRONG_AMOUNT)


class HeldError(GpushareError):
    """The container must not start yet; the kubelet tries again. ``pod`` is its pod, if that is known."""

    def __init__(self, reason: HoldReason, message: str, pod: ObjectMeta | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.pod = pod


@dataclass(eq=False)
class Verification:
    """Lets containers start, or raises HeldError."""

    view: NodeView
    exchange: Exchange
    hand_bound: HandBound

    async def verify(self, device_ids: Sequence[str]) -> ObjectMeta | None:
        """The pod of the container that may start, marked assigned; None for ids that we never announced.

        Those are the Go plugin's, or of another unit: the kubelet kept the answer that came with them. Raises HeldError, and
        ApiError if the API server is needed and does not answer.
        """
        if not DeviceIds(self.view.node.cards.cards).cards_of(device_ids):
            return None
        # Another call may have let it start while this one waited.
        if (known := self.known_correct(device_ids)) is not None:
            return known
        await self.view.read_records()
        await self.view.refresh(_LIST_ATTEMPTS)
        grant = self.view.now().holdings.owner(device_ids)
        if grant is not None:
            return await self._let_start(grant)
        if any(not entry.ids.isdisjoint(device_ids) for entry in self.view.last):
            text = "the ids belong to a pod that the API server does not show on this node"
        else:
            text = "the kubelet does not say yet which pod these ids belong to"
        raise HeldError(HoldReason.OWNER_UNKNOWN, text)

    def known_correct(self, device_ids: Sequence[str]) -> ObjectMeta | None:
        """A container that starts again, of a pod that was found right before: no other program needs to answer."""
        snapshot = self.view.now()
        grant = snapshot.holdings.owner(device_ids)
        if grant is None or grant.is_guess or not is_assigned(pod := snapshot.pod(grant.uid)):
            return None
        return pod.metadata if self._trouble(pod, grant, snapshot) is None else None

    async def _let_start(self, grant: Grant) -> ObjectMeta:
        snapshot = self.view.now()
        if snapshot.pod(grant.uid).allocation is None:
            await self.hand_bound.run()
            snapshot = self.view.now()
        pod_card = snapshot.pod_card(grant.uid)
        if pod_card is not None and (pod_card.is_misplaced or self.exchange.has_work(snapshot)):
            snapshot = await self.exchange.run()
        pod = self.view.pods.by_uid(grant.uid)
        if pod is None:
            raise HeldError(HoldReason.OWNER_UNKNOWN, f"pod {grant.uid} was there a moment ago and is gone")
        trouble = self._trouble(pod, grant, snapshot)
        if trouble is not None:
            reason, text = trouble
            refusal = self.view.refused.get(grant.uid)
            if refusal is not None and reason not in (HoldReason.SEVERAL_CARDS, HoldReason.WRONG_AMOUNT):
                reason, text = HoldReason.REFUSED, f"but its annotation cannot be written: {refusal}"
            cards = ", ".join(f"card {index}" for index in sorted(grant.by_card))
            name = f"{pod.metadata.namespace}/{pod.metadata.name}"
            raise HeldError(reason, f"pod {name} has ids of {cards}, {text}", pod.metadata)
        if not is_assigned(pod):
            # The same write puts back the changes of its author.
            await self.view.write(pod, {**differences(pod), wire.ANNOTATION_ASSIGNED: "true"})
            devices = ",".join(map(str, sorted(grant.by_card)))
            _LOG.info("assigned pod=%s/%s uid=%s device=%s", *named(pod), devices)
        return pod.metadata

    def _trouble(self, pod: KeptPod, grant: Grant, snapshot: NodeSnapshot) -> tuple[HoldReason, str] | None:
        """Why the container must not start, None if its ids lie on the cards that are written, and it was told its amount."""
        allocation, pod_card = pod.allocation, snapshot.pod_card(grant.uid)
        if allocation is None:
            against = self.hand_bound.reason_against(snapshot, lambda one: one.metadata.uid == grant.uid)
            return HoldReason.NO_CARD, f"but its annotation names no card: {against or 'none is written yet'}"
        if not _has_right_variables(pod, grant, snapshot):
            text = "but was told the amount of another pod's container, which it keeps for as long as it lives"
            return HoldReason.WRONG_AMOUNT, text
        if allocation.by_container is not None:
            units = dict(pod.gpu_containers).get(grant.container, 0)
            written = dict(container_cards(pod, allocation, grant.container, units))
            if dict(grant.by_card) == written:
                return None
            # Its ids lie as its annotation names them, or it never starts.
            named_units = ", ".join(f"{units} of card {index}" for index, units in sorted(written.items())) or "no card"
            return HoldReason.SEVERAL_CARDS, f"but its annotation names {named_units} for it"
        if len(snapshot.holdings.cards(grant.uid)) != 1 or pod_card is None:
            text = "and its containers lie on several cards; its annotation names one"
            return HoldReason.SEVERAL_CARDS, text
        if not pod_card.is_misplaced:
            return None
        reason, why = self._why_misplaced(pod, pod_card, snapshot)
        return reason, f"but its annotation names card {pod_card.index}: {why}"

    def _why_misplaced(self, pod: KeptPod, pod_card: PodCard, snapshot: NodeSnapshot) -> tuple[HoldReason, str]:
        fixed = why_fixed(pod) if self.view.repairs else "repairs are switched off (--repair hold)"
        if fixed is not None:
            return HoldReason.FIXED, fixed
        if has_room(pod_card, snapshot.pod_cards, snapshot.units):
            return HoldReason.SETTLING, "it is written on the card once binds that are under way have landed"
        return HoldReason.NO_ROOM, "the card is booked for others"


def _has_right_variables(pod: KeptPod, grant: Grant, snapshot: NodeSnapshot) -> bool:
    """Do the variables say the container's amount? Where an id is a unit they cannot say another."""
    stated = (grant.variables or {}).get(wire.ENV_CONTAINER_UNITS)
    if stated is None or not snapshot.counts_slots:
        return True
    return stated == str(dict(pod.gpu_containers).get(grant.container))
