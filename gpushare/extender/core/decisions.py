"""The last decisions about pods, for the page. Pure: the newest are kept, in memory alone."""

from __future__ import annotations

from collections import OrderedDict
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
    """One decision, which came ``times``; ``detail`` is a node, a reason or a count.

    ``at`` is when it came last, ``first`` when it came first, in whole seconds of a monotonic clock.
    """

    at: int
    outcome: str
    namespace: str
    name: str
    detail: str
    times: int = 1
    first: int = 0


class Decisions:
    """The newest ones, and how many there were of each outcome since the start."""

    def __init__(self, most: int = MOST_DECISIONS) -> None:
        self._most = most
        self._kept: OrderedDict[tuple[str, ...], Decision] = OrderedDict()
        self.counts = dict.fromkeys((BOUND, REFUSED, NOT_BOUND, PREEMPTED), 0)

    def note(self, at: float, outcome: str, namespace: str, name: str, detail: str) -> None:
        """A pod has this outcome, one of the constants of this module. The same once more is kept as one."""
        self.counts[outcome] += 1
        key = (outcome, namespace, name, detail[:MOST_CHARACTERS])
        before = self._kept.pop(key, None)
        times, first = (1, int(at)) if before is None else (before.times + 1, before.first)
        self._kept[key] = Decision(int(at), *key, times, first)
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)

    def newest(self) -> tuple[Decision, ...]:
        """The kept ones, the newest first."""
        return tuple(reversed(self._kept.values()))
