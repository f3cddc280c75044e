"""The machines of a trace with the pods on them: the extender's own book, and CPU and memory as kube-scheduler counts them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

import msgspec

from gpushare.extender.core.book import Book
from gpushare.extender.core.filter import filter_nodes
from gpushare.extender.core.prioritize import prioritize
from gpushare.extender.core.workload import Workload, class_of
from gpushare.manifests import Node, Pod
from gpushare.model.allocation import Shares
from gpushare.model.outlook import Outlook, PodClass
from gpushare.model.placement import Question, choose, question
from gpushare.model.pod import cpu_request, request_of
from load.replay.replay_objects import bound, node_object, pod_object
from load.replay.trace import Trace, TracePod

# As many as a trace has kinds of pods: an extender meets them over months, a replay in seconds.
_MOST_REQUESTS: Final = 1000


@dataclass(slots=True)
class _Room:
    """The free resources of a machine beside its cards."""

    name: str
    cpu_milli: int
    memory_mib: int


class Rooms:
    """CPU and memory of the machines, as kube-scheduler counts them before it asks an extender."""

    def __init__(self, trace: Trace) -> None:
        self._rooms = {node.name: _Room(node.name, node.cpu_milli, node.memory_mib) for node in trace.nodes}

    def holding(self, pod: TracePod) -> list[str]:
        """The machines that have what the pod asks for, in the order of the trace."""
        return [
            room.name
            for room in self._rooms.values()
            if room.cpu_milli >= pod.cpu_milli and room.memory_mib >= pod.memory_mib
        ]

    def take(self, pod: TracePod, name: str) -> None:
        """The pod is there."""
        room = self._rooms[name]
        room.cpu_milli -= pod.cpu_milli
        room.memory_mib -= pod.memory_mib


class World:
    """Machines, none of which has a pod at first. ``policy`` is the extender's; ``expected`` the pods that it knows will come."""

    def __init__(self, trace: Trace, policy: str, expected: Outlook | None) -> None:
        self.allocated = 0
        self._policy = policy
        self._book = Book(Workload(counts_cpu=True, expected=expected), most_requests=_MOST_REQUESTS)
        self._rooms = Rooms(trace)
        for node in trace.nodes:
            self._book.set_node(msgspec.convert(node_object(node), Node))

    def candidates(self, pod: TracePod) -> list[str]:
        """The nodes that hold it with the extender's best score; all of them are equally good."""
        names = self._rooms.holding(pod)
        asked, snapshot = self._question(pod), self._book.snapshot()
        names = filter_nodes(asked, names, snapshot, self._book.answers.reasons(asked.request)).fitting
        scores = prioritize(asked, names, snapshot, self._book.answers.costs(asked))
        best = max(scores.values(), default=0)
        return [name for name in names if scores[name] == best]

    def place(self, pod: TracePod, number: int, name: str) -> Shares:
        """Put the pod that came as the ``number``-th on a node, as the watch would tell of it; its cards."""
        asked = self._question(pod)
        self._rooms.take(pod, name)
        shares = choose(self._book.snapshot().nodes[name], asked) if pod.demand else ()
        self._book.set_pod(msgspec.convert(bound(pod_object(pod, number), name, shares), Pod))
        self.allocated += pod.demand
        return shares

    def _question(self, pod: TracePod) -> Question:
        told = msgspec.convert(pod_object(pod, 0), Pod)
        return question(request_of(told), self._book.snapshot(), self._policy, cpu_request(told))


def expected_of(trace: Trace) -> Outlook:
    """The kinds of pods of the trace, as often as each is in it: the published policies know them beforehand, too."""
    counts: Counter[PodClass] = Counter()
    for pod in trace.pods:
        if pod.demand:
            wishes = request_of(msgspec.convert(pod_object(pod, 0), Pod)).wishes
            counts[class_of(pod.demand, wishes, pod.cpu_milli)] += 1
    return Outlook(counts)
