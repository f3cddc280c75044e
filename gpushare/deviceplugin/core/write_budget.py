"""How often a thing is written or deleted: a few times a minute, whatever its author does. Pure."""

from __future__ import annotations

from typing import Final

_WINDOW_SECONDS: Final = 60.0


class WriteBudget:
    """By uid, the times of the writes of the last minute, ``most`` at most, in seconds of a clock that only goes forward."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._times: dict[str, list[float]] = {}

    def take(self, uid: str, now: float) -> bool:
        """May the pod be written once more? Counts the write if so."""
        if uid in self.spent(now):
            return False
        self._times.setdefault(uid, []).append(now)
        return True

    def spent(self, now: float) -> frozenset[str]:
        """The pods that must be left alone until a minute after the first of their writes has passed."""
        recent = {uid: [at for at in times if now - at < _WINDOW_SECONDS] for uid, times in self._times.items()}
        self._times = {uid: times for uid, times in recent.items() if times}
        return frozenset(uid for uid, times in self._times.items() if len(times) >= self._most)
