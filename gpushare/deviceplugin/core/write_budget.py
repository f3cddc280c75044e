"""How often a thing is written or deleted: a few times a minute, whatever its author does. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from typing import Final

_WINDOW_SECONDS: Final = 60.0


class WriteBudget:
    """By uid, the times of the latest ``most`` writes, in seconds of a clock that only goes forward."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._times: dict[str, deque[float]] = {}

    def take(self, uid: str, now: float) -> bool:
        """May the pod be written once more? Counts the write if so."""
        if self.is_spent(uid, now):
            return False
        self._times.setdefault(uid, deque(maxlen=self._most)).append(now)
        return True

    def is_spent(self, uid: str, now: float) -> bool:
        """Must the pod be left alone until its window has passed?"""
        times = self._times.get(uid)
        return times is not None and len(times) == times.maxlen and now - times[0] < _WINDOW_SECONDS

    def spent(self, now: float) -> frozenset[str]:
        """The pods that must be left alone now."""
        return frozenset(uid for uid in self._times if self.is_spent(uid, now))

    def forget_others(self, alive: Collection[str]) -> None:
        """The other pods are gone."""
        self._times = {uid: times for uid, times in self._times.items() if uid in alive}
