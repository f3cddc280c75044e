"""Why no node takes a pod, in the one line that ``kubectl describe pod`` shows."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from clusters.embedded.scheduling.fit import Rejection


class SchedulingError(Exception):
    """A cycle that found no node. The pod waits with reason Unschedulable; ``rejectors`` decide what wakes it."""

    def __init__(self, message: str, rejectors: frozenset[str] = frozenset()) -> None:
        super().__init__(message)
        self.rejectors = rejectors


class NoNodesError(SchedulingError):
    """The cluster has no node at all; this is no refusal, so the pod is tried again after its backoff."""

    def __init__(self) -> None:
        super().__init__("no nodes available to schedule pods")


class FitError(SchedulingError):
    """Nodes there are, but none fits. ``diagnosis`` is what preemption starts from."""

    def __init__(self, diagnosis: Diagnosis) -> None:
        super().__init__(message_of(diagnosis), diagnosis.rejectors)
        self.diagnosis = diagnosis

    def with_preemption(self, message: str) -> FitError:
        """The same refusal, followed by the result of preemption."""
        said = FitError(self.diagnosis)
        said.args = (f"{self} {message}" if message else str(self),)
        return said


@dataclass(slots=True)
class Diagnosis:
    """The findings of one cycle about the nodes.

    Nodes without a rejection were not looked at, or an extender dropped them without a reason; ``absent_reason`` stands
    for them if a filter has narrowed the search to named nodes.
    """

    node_count: int
    rejections: dict[str, Rejection] = field(default_factory=dict)
    absent_reason: str = ""
    # A refusal of the pod itself, before any node was looked at.
    of_the_pod: str = ""
    silent_rejectors: set[str] = field(default_factory=set)

    @property
    def rejectors(self) -> frozenset[str]:
        """The plugin that kept the pod from a node, with a reason, or (an extender that just drops nodes) without."""
        return frozenset({rejection.plugin for rejection in self.rejections.values()} | self.silent_rejectors)


def message_of(diagnosis: Diagnosis) -> str:
    """``0/3 nodes are available: 1 Insufficient cpu, 2 node(s) were unschedulable.``: counted, then sorted as text."""
    if diagnosis.of_the_pod:
        return f"0/{diagnosis.node_count} nodes are available: {diagnosis.of_the_pod}."
    counts = Counter(reason for rejection in diagnosis.rejections.values() for reason in rejection.reasons)
    absent = diagnosis.node_count - len(diagnosis.rejections)
    if diagnosis.absent_reason and absent > 0:
        counts[diagnosis.absent_reason] += absent
    head = f"0/{diagnosis.node_count} nodes are available:"
    reasons = ", ".join(sorted(f"{number} {reason}" for reason, number in counts.items()))
    return f"{head} {reasons}." if reasons else head
