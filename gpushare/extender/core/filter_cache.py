"""The last answer for each pod that waits: to explain it, and to see which pod would now get a card.

Only the newest answers are kept node by node; of older ones how many nodes gave which reason.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Final

from gpushare.bounds import ANSWERS_KEPT
from gpushare.extender.core.filter import FilterResult
from gpushare.extender.core.reservations import Fate, State
from gpushare.manifests import ObjectMeta
from gpushare.model.pod import Request
from gpushare.model.waiting import Wait

# Why a pod waits, if no node refused it: its own gates, a filter of its scheduler, or no answer yet.
GATED: Final = "scheduling gates"
BY_SCHEDULER: Final = "refused by its scheduler"
UNREPORTED: Final = "no report of its scheduler"
NOT_REFUSED: Final = frozenset({GATED, BY_SCHEDULER, UNREPORTED})
# Pods that are remembered.
MOST_PODS: Final = 10_000
# How long a pod that would now get a card waits until it is called, in seconds: by then its scheduler has asked again, where it
# had a reason to. Each time that it is called in vain it waits twice as long for the next call for the same nodes.
FIRST_PATIENCE: Final = 5.0
LAST_PATIENCE: Final = 300.0
# If more nodes would hold a pod they are not compared with those of its last call.
NODES_COMPARED: Final = 64
_ENDED: Final = (State.BOUND, State.GONE)


@dataclass(slots=True)
class CachedAnswer:
    """The last answer for one pod. Times are seconds of a monotonic clock.

    ``request`` is None if the pod's annotations make no sense. ``reason`` is why the pod waits, "" if a node held it;
    ``reasons`` how many nodes gave each. ``answer`` are the bytes that the scheduler got for each node; None once that is
    forgotten. ``priority`` is the pod's. ``tried`` are the nodes that would have held the pod when it was called last.
    """

    metadata: ObjectMeta
    request: Request | None
    asked_at: float
    times: int
    fitting: int
    reason: str
    reasons: Mapping[str, int]
    answer: bytes | None
    priority: int = 0
    patience: float = FIRST_PATIENCE
    waits_since: float = 0.0
    tried: frozenset[str] = frozenset()

    def may_be_called(self, nodes: Collection[str], now: float) -> bool:
        """Is a call due, if these nodes would hold the pod?

        A scheduler may have its own reason against every node of the last call, such as the pod's node selector. A node that was
        not among them does not wait for the longer patience of calls in vain.
        """
        return now - self.waits_since >= (FIRST_PATIENCE if self._is_new(nodes) else self.patience)

    def called(self, nodes: Collection[str], now: float) -> None:
        """Its scheduler was given a reason to ask again, as these nodes would hold the pod."""
        self.patience = min(2 * (FIRST_PATIENCE if self._is_new(nodes) else self.patience), LAST_PATIENCE)
        self.waits_since, self.tried = now, frozenset(nodes)

    def _is_new(self, nodes: Collection[str]) -> bool:
        return len(nodes) <= NODES_COMPARED and not self.tried.issuperset(nodes)


def reason_of_wait(wait: Wait, cached: CachedAnswer | None) -> str | None:
    """Why a pod waits, in words that do not depend on the pod; None if a node held it and its bind is under way.

    Many pods never reach the extender, because kube-scheduler refuses each node first, for example by the node's sum.
    """
    if wait.is_gated:
        return GATED
    if cached is not None and not cached.fitting:
        return cached.reason
    if wait.reason:
        return BY_SCHEDULER
    return UNREPORTED if cached is None else None


class FilterCache:
    """By pod, those first that were asked for longest ago."""

    def __init__(self) -> None:
        self._by_uid: OrderedDict[str, CachedAnswer] = OrderedDict()
        # Bytes of each answer that is kept, and of all.
        self._detailed: OrderedDict[str, int] = OrderedDict()
        self._bytes = 0

    def note(
        self,
        metadata: ObjectMeta,
        request: Request | None,
        result: FilterResult,
        answer: bytes,
        now: float,
        priority: int = 0,
    ) -> None:
        """A scheduler asked for a pod and got this answer. Its bytes are kept, not the names in them: that is fewer objects."""
        uid = metadata.uid
        known = self._by_uid.pop(uid, None)
        times = 1 if known is None else known.times + 1
        # Called in vain before, it may be again; only its end forgets that.
        patience, tried = (FIRST_PATIENCE, frozenset[str]()) if known is None else (known.patience, known.tried)
        reasons = {reason: len(names) for reason, names in (*result.failed.items(), *result.unresolvable.items())}
        fitting = len(result.fitting)
        # The pod's identity alone: there may be thousands, and its annotations may be large.
        identity = ObjectMeta(metadata.name, metadata.namespace, uid)
        self._by_uid[uid] = CachedAnswer(
            identity, request, now, times, fitting, result.reason, reasons, answer, priority, patience, now, tried
        )
        self._bytes += len(answer) - self._detailed.pop(uid, 0)
        self._detailed[uid] = len(answer)
        while ANSWERS_KEPT.exceeded(self._bytes) and len(self._detailed) > 1:
            self._forget_details()
        if len(self._by_uid) > MOST_PODS:
            self.drop(next(iter(self._by_uid)))

    def drop(self, uid: str) -> None:
        """The pod waits no more."""
        if self._by_uid.pop(uid, None) is not None:
            self._bytes -= self._detailed.pop(uid, 0)

    def by_uid(self, uid: str) -> CachedAnswer | None:
        """That of this very pod."""
        return self._by_uid.get(uid)

    def of(self, namespace: str, name: str) -> CachedAnswer | None:
        """The newest of a pod of this name."""
        for cached in reversed(self._by_uid.values()):
            if cached.metadata.name == name and cached.metadata.namespace == namespace:
                return cached
        return None

    def due(
        self, now: float, fate_of: Callable[[ObjectMeta], Fate], most: int, passed_over: Set[str] = frozenset()
    ) -> Sequence[CachedAnswer]:
        """Pods that were refused everywhere and have waited long enough for a first call, at most ``most``.

        A pod that is bound or gone is dropped. One that our watch does not show yet is kept for some minutes: it may have been
        refused only because our book was behind the scheduler's. ``passed_over`` are uids that are not asked for this time.
        """
        found: list[CachedAnswer] = []
        for uid, cached in tuple(self._by_uid.items()):
            if uid in passed_over or now - cached.waits_since < FIRST_PATIENCE:
                continue
            state = fate_of(cached.metadata).state
            if state in _ENDED or (state is State.UNKNOWN and now - cached.asked_at >= LAST_PATIENCE):
                self.drop(uid)
            elif state is State.PENDING and not cached.fitting and cached.request is not None:
                found.append(cached)
                if len(found) == most:
                    break
        return found

    def __len__(self) -> int:
        """Pods that are remembered."""
        return len(self._by_uid)

    def _forget_details(self) -> None:
        uid, size = self._detailed.popitem(last=False)
        self._bytes -= size
        self._by_uid[uid].answer = None
