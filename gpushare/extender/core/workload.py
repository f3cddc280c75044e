"""Which pods come, and how much CPU they leave: the inputs of the policy ``fragmentation`` beside the cards.

Pods of a class are counted as they are first seen with their cards. The expectation follows the cluster slowly: it is made of
the last thousands of pods.

CPU only decides between nodes that hold the pod anyway, so it is not audited: an error that a lost event leaves here ends with
the next list. A pod's CPU counts from when it is assumed, as its card does (on several nodes: on the latest), or bound by us.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable
from types import MappingProxyType
from typing import Final

from gpushare.manifests import Node, Pod
from gpushare.model.forecast import Forecast, PodClass
from gpushare.model.node import Booking
from gpushare.model.pod import cpu_request
from gpushare.model.quantity import parse_milli
from gpushare.model.wishes import Wishes

# The expectation is computed again, which takes up to a second, after this part of all pods has come since, and this many at least.
_NEWS: Final = 0.25
_FEWEST_NEWS: Final = 10
# The most pods that count: those that came last.
_MOST_PODS: Final = 5000
# CPU of classes is rounded up to this, in milli-CPUs: some ask for the strangest amounts, and each would be a class.
_CPU_STEP: Final = 500


def class_of(units: int, wishes: Wishes, cpu_milli: int) -> PodClass:
    """The class of a pod that asks for this many units in all."""
    parts = wishes.split if sum(wishes.split) == units else (units,)
    models = Wishes(models=wishes.models, banned_models=wishes.banned_models)
    return PodClass(min(parts), len(parts), cpu_milli, models)


class Workload:
    """``counts_cpu``: look at every pod for its CPU, as one policy needs. ``expected`` replaces the classes that are seen."""

    def __init__(self, *, counts_cpu: bool = False, expected: Forecast | None = None) -> None:
        self._counts_cpu = counts_cpu
        self._expected = expected
        self._forecast: Forecast | None = None
        self._last: deque[PodClass] = deque(maxlen=_MOST_PODS)
        self._news = 0
        # Uids of the pods that were counted and have not ended.
        self._noted: set[str] = set()
        # Milli-CPUs: of each node that is known, of each pod by uid and with its node, and of all pods of a node.
        self._allocatable: dict[str, int] = {}
        self._pods: dict[str, tuple[str, int]] = {}
        self._used: defaultdict[str, int] = defaultdict(int)
        self._free: dict[str, int] = {}
        # For known nodes; must not be changed by readers. The value is 0 if more is used than there is.
        self.free_cpu = MappingProxyType(self._free)
        # Called with each node that may have another amount of free CPU than before.
        self.on_change: Callable[[str], None] = lambda name: None

    def forecast(self) -> Forecast | None:
        """The pods that are expected to come; None as long as none has."""
        if self._expected is not None:
            return self._expected
        if self._news and (self._forecast is None or self._news >= max(_NEWS * len(self._last), _FEWEST_NEWS)):
            self._forecast, self._news = Forecast(Counter(self._last)), 0
        return self._forecast

    def note(self, pod: Pod, booking: Booking, wishes: Wishes) -> None:
        """A pod has cards; each counts once, however often it is shown until it has ended."""
        if booking.uid in self._noted:
            return
        self._noted.add(booking.uid)
        cpu = -(-cpu_request(pod) // _CPU_STEP) * _CPU_STEP
        self._last.append(class_of(booking.units, wishes, cpu))
        self._news += 1

    def set_node(self, node: Node) -> None:
        """A node is new or changed."""
        if self._counts_cpu:
            amounts = (node.status.allocatable if node.status else None) or {}
            self._allocatable[node.metadata.name] = parse_milli(amounts.get("cpu", 0))
            self._count(node.metadata.name)

    def remove_node(self, name: str) -> None:
        """It is gone; its pods may still be there."""
        self._allocatable.pop(name, None)
        self._free.pop(name, None)

    def set_pod(self, pod: Pod, node: str) -> None:
        """A pod is on a node."""
        if self._counts_cpu:
            self.put(pod.metadata.uid, node, cpu_request(pod))

    def put(self, uid: str, node: str, cpu: int) -> None:
        """So many milli-CPUs of a node are a pod's, be it bound there or assumed."""
        if not self._counts_cpu or self._pods.get(uid) == (node, cpu):
            return
        self.leave_node(uid)
        if cpu:
            self._pods[uid] = node, cpu
            self._used[node] += cpu
            self._count(node)

    def remove_pod(self, uid: str) -> None:
        """A pod has ended."""
        self._noted.discard(uid)
        self.leave_node(uid)

    def forget(self, uid: str, node: str, other: str) -> None:
        """A pod is not on this node; it may be on another, on which it is assumed still."""
        on, cpu = self._pods.get(uid, ("", 0))
        if on == node:
            self.put(uid, other, cpu if other else 0)

    def leave_node(self, uid: str) -> None:
        """A pod is on no node that we know of."""
        if uid in self._pods:
            node, cpu = self._pods.pop(uid)
            self._used[node] -= cpu
            if not self._used[node]:
                del self._used[node]
            self._count(node)

    def _count(self, name: str) -> None:
        if name in self._allocatable:
            self._free[name] = max(self._allocatable[name] - self._used.get(name, 0), 0)
        self.on_change(name)
