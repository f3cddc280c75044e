"""Containers that may not start (yet), and why, in a word for machines and a text for people."""

from __future__ import annotations

import enum

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
