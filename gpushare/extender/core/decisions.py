"""The last decisions about pods, for the page. Pure: the newest are kept, in memory alone."""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

# Decisions that are kept: a screen or two, and some kB.
MOST_DECISIONS: Final = 60

# A reason may quote a caller: its beginning is kept.
MOST_CHARACTERS: Final = 300

BOUND: Final = "bound"
REFUSED: Final = "refused"
NOT_BOUND: Final = "not bound"
PREEMPTED: Final = "preemption"


class Decision(NamedTuple):
    """One decision. ``at`` are whole seconds of a monotonic clock; ``detail`` is a node, a reason or a count."""

    at: int
    outcome: str
    namespace: str
    name: str
    detail: str


class Decisions:
    """The newest ones, and how many there were of each outcome since the start."""

    def __init__(self, most: int = MOST_DECISIONS) -> None:
        self._kept: deque[Decision] = deque(maxlen=most)
        self.counts = dict.fromkeys((BOUND, REFUSED, NOT_BOUND, PREEMPTED), 0)

    def note(self, at: float, outcome: str, namespace: str, name: str, detail: str) -> None:
        """A pod has this outcome, one of the constants of this module."""
        self.counts[outcome] += 1
        self._kept.append(Decision(int(at), outcome, namespace, name, detail[:MOST_CHARACTERS]))

    def newest(self) -> tuple[Decision, ...]:
        """The kept ones, the newest first."""
        return tuple(reversed(self._kept))
