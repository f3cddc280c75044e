"""Containers that may not start (yet), and why, in a word for machines and a text for people."""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from gpushare.errors import GpushareError
from gpushare.manifests import ObjectMeta


class HoldReason(enum.Enum):
    """Why. The value is what a machine reads."""

    OWNER_UNKNOWN = "OwnerUnknown"
    """The kubelet does not say yet whose the ids are, or the API does not show the pod."""
    NO_CARD = "NoCard"
    """No annotation names a card, and none has room."""
    NO_ROOM = "NoRoom"
    """The card that the container has is booked for others, who may leave."""
    SETTLING = "Settling"
    """The card's room is free; binds decided before the mark was seen may still be under way."""
    REFUSED = "WriteRefused"
    """The API server refuses to change the pod's annotations, for now."""
    FIXED = "CardIsFixed"
    """The card that is written must not be changed."""
    SEVERAL_CARDS = "SeveralCards"
    """The ids lie on more cards than, or other cards of several than, the annotation says."""
    WRONG_AMOUNT = "WrongAmount"
    """The container was told another pod's amount, and what it was told cannot be changed."""


# Reasons that no retry mends: only a new pod does.
FINAL = frozenset({HoldReason.FIXED, HoldReason.SEVERAL_CARDS, HoldReason.WRONG_AMOUNT})


class HeldError(GpushareError):
    """The container must not start yet; the kubelet tries again. ``pod`` is its pod, if that is known."""

    def __init__(self, reason: HoldReason, message: str, pod: ObjectMeta | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.pod = pod


@dataclass(frozen=True, slots=True)
class HeldPod:
    """A pod with a container that may not start."""

    uid: str
    namespace: str
    name: str
    reason: HoldReason
    text: str

    @property
    def is_final(self) -> bool:
        """Does waiting not help?"""
        return self.reason in FINAL


class HeldPods:
    """The pods that are held now, by uid."""

    def __init__(self) -> None:
        self._pods: dict[str, HeldPod] = {}

    def hold(self, error: HeldError) -> None:
        """A container was not let through."""
        pod = error.pod
        if pod is not None:
            self._pods[pod.uid] = HeldPod(pod.uid, pod.namespace, pod.name, error.reason, str(error))

    def release(self, uid: str) -> None:
        """A container of the pod was let through."""
        self._pods.pop(uid, None)

    def among(self, alive: Collection[str]) -> Mapping[str, HeldPod]:
        """The pods that are held, among those that are there."""
        self._pods = {uid: held for uid, held in self._pods.items() if uid in alive}
        return dict(self._pods)
