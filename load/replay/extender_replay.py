"""Replay: one pod after the other comes, is placed by the policy, and stays; a pod that fits nowhere is passed over.

The machines have the extender's own book, and CPU and memory as kube-scheduler counts them. The order of the pods is the
protocol of the published figures ("Beware of Fragmentation", USENIX ATC 2023): shuffled by a seed, and as many as ask for a
given part of all cards. A list that asks for less is topped up by draws with replacement for as long as the next stays within
the part; of one that asks for more random pods are left out.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from gpushare.extender.core.book import Book
from gpushare.extender.core.filter import filter_nodes
from gpushare.extender.core.prioritize import prioritize
from gpushare.extender.core.workload import Workload, class_of
from gpushare.manifests import Node, Pod
from gpushare.model.allocation import Shares
from gpushare.model.forecast import Forecast, PodClass
from gpushare.model.placement import Question, choose, question
from gpushare.model.pod import cpu_request, request_of
from load.replay.trace import Trace, TracePod, bound, node_object, pod_object

# The published figures are for so much demand, in parts of all cards.
_PUBLISHED_DEMAND: Final = 1.3
_MOST_PODS: Final = 1_000_000
# As many as a trace has kinds of pods: an extender meets them over months, a replay in seconds.
_MOST_REQUESTS: Final = 1000


@dataclass(frozen=True, slots=True)
class Step:
    """After a pod came: the demand of all that came and what of the cards is allocated, in units; where it was placed."""

    pod: TracePod
    arrived: int
    allocated: int
    node: str = ""
    shares: Shares = ()


def arrivals(trace: Trace, seed: int) -> list[TracePod]:
    """The pods in order; equal for equal arguments."""
    rng = random.Random(seed)
    most = int(trace.capacity * _PUBLISHED_DEMAND)
    pods = list(trace.pods)
    rng.shuffle(pods)
    asked = sum(pod.demand for pod in pods)
    if asked > most:
        # Without the last of them, which are random ones, until no more than the excess is gone.
        while asked > most:
            asked -= pods.pop().demand
        return pods
    # From a list with hardly any pod that asks for a card no more come than this.
    while len(pods) < _MOST_PODS and asked + (pod := rng.choice(trace.pods)).demand <= most:
        pods.append(pod)
        asked += pod.demand
    return pods


class World:
    """Machines, none of which has a pod at first. ``policy`` is the extender's; ``expected`` the pods that it knows will come."""

    def __init__(self, trace: Trace, policy: str, expected: Forecast | None) -> None:
        self.allocated = 0
        self._policy = policy
        self._book = Book(Workload(counts_cpu=True, expected=expected), most_requests=_MOST_REQUESTS)
        # Milli-CPUs and MiB that are free, as kube-scheduler counts them before it asks an extender.
        self._rooms = {node.name: (node.cpu_milli, node.memory_mib) for node in trace.nodes}
        for node in trace.nodes:
            self._book.set_node(msgspec.convert(node_object(node), Node))

    def candidates(self, pod: TracePod) -> list[str]:
        """The nodes that hold it with the extender's best score; all of them are equally good."""
        names = [name for name, (cpu, mib) in self._rooms.items() if cpu >= pod.cpu_milli and mib >= pod.memory_mib]
        asked, snapshot = self._question(pod), self._book.snapshot()
        names = filter_nodes(asked, names, snapshot, self._book.answers.reasons(asked.request)).fitting
        scores = prioritize(asked, names, snapshot, self._book.answers.costs(asked))
        best = max(scores.values(), default=0)
        return [name for name in names if scores[name] == best]

    def place(self, pod: TracePod, number: int, name: str) -> Shares:
        """Put the pod that came as the ``number``-th on a node, as the watch would tell of it; its cards."""
        asked = self._question(pod)
        cpu, mib = self._rooms[name]
        self._rooms[name] = cpu - pod.cpu_milli, mib - pod.memory_mib
        shares = choose(self._book.snapshot().nodes[name], asked) if pod.demand else ()
        self._book.set_pod(msgspec.convert(bound(pod_object(pod, number), name, shares), Pod))
        self.allocated += pod.demand
        return shares

    def _question(self, pod: TracePod) -> Question:
        told = msgspec.convert(pod_object(pod, 0), Pod)
        return question(request_of(told), self._book.snapshot(), self._policy, cpu_request(told))


def expected_of(trace: Trace) -> Forecast:
    """The kinds of pods of the trace, as often as each is in it: the published policies know them beforehand, too."""
    counts: Counter[PodClass] = Counter()
    for pod in trace.pods:
        if pod.demand:
            wishes = request_of(msgspec.convert(pod_object(pod, 0), Pod)).wishes
            counts[class_of(pod.demand, wishes, pod.cpu_milli)] += 1
    return Forecast(counts)


def replay(trace: Trace, pods: Sequence[TracePod], policy: str, seed: int, expected: Forecast | None) -> Iterator[Step]:
    """The steps, one a pod. Between nodes that are alike the seed decides, as chance does in kube-scheduler.

    ``expected`` is what the policy knows of the pods to come; None: what it sees.
    """
    rng, world, arrived = random.Random(seed), World(trace, policy, expected), 0
    for number, pod in enumerate(pods):
        arrived += pod.demand
        best = world.candidates(pod)
        node = rng.choice(best) if best else ""
        shares = world.place(pod, number, node) if node else ()
        yield Step(pod, arrived, world.allocated, node, shares)


def ratios(trace: Trace, steps: Sequence[Step], demands: Sequence[float]) -> list[float]:
    """The share of all cards that is allocated, in percent, once pods that ask for these parts of all cards have come."""
    found = []
    for demand in demands:
        reached = [step.allocated for step in steps if step.arrived <= trace.capacity * demand]
        found.append(100 * (reached[-1] if reached else 0) / trace.capacity)
    return found
