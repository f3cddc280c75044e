"""Which container a kubelet's call is for: Allocate names nobody. Pure.

A kubelet admits one pod at a time, in the order in which they were bound, and asks container by container: ordinary
init containers and sidecars first, then the containers (measured on 1.36, see the conformance notes in
``e2e/README.md``). So the next call belongs to the pod that is half done, else to the first pod in bind order of
which nothing was granted. Pods that the kubelet turned away for another reason are passed over when the amount does
not match. The order is a hint: the owner is verified before the container starts (``owner``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpushare.errors import GpushareError, NoCandidateError
from gpushare.manifests import Pod
from gpushare.model.allocation import Allocation, decode
from gpushare.model.pod import gpu_containers, is_deleting, is_finished, pod_request

_STARTED = ("Running",)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A container that waits for its ids: of which pod, how many units, and on which card the extender put it."""

    uid: str
    namespace: str
    pod: str
    container: str
    units: int
    pod_units: int
    index: int


def candidates(pods: Iterable[Pod], granted: Mapping[str, Sequence[str]]) -> list[Candidate]:
    """The next container of each pod that is not fully granted, most likely first.

    ``pods`` are the node's, in bind order; ``granted`` names by uid the containers that were answered already. Pods
    that have ended, that run, that are assigned or that no valid annotation puts on one card are no candidates.
    """
    begun: list[Candidate] = []
    fresh: list[Candidate] = []
    for pod in pods:
        done = granted.get(pod.metadata.uid, ())
        candidate = _next_of(pod, done)
        if candidate is not None:
            (begun if done else fresh).append(candidate)
    return begun + fresh


def _next_of(pod: Pod, done: Sequence[str]) -> Candidate | None:
    if is_finished(pod) or is_deleting(pod) or (pod.status and pod.status.phase in _STARTED):
        return None
    try:
        allocation = decode(pod.metadata.annotations, pod_request(pod))
        waiting = [(name, units) for name, units in gpu_containers(pod) if name not in done]
    except GpushareError:
        return None
    if allocation is None or not _is_open(allocation) or not waiting:
        return None
    name, units = waiting[0]
    metadata = pod.metadata
    return Candidate(metadata.uid, metadata.namespace, metadata.name, name, units, pod_request(pod), allocation.index)


def _is_open(allocation: Allocation) -> bool:
    return not allocation.assigned and len(allocation.shares) == 1


def match(
    waiting: Sequence[Candidate], units: int, free_ids: Mapping[int, int], must_be: int | None = None
) -> Candidate:
    """The candidate for a call that asks for ``units``.

    ``free_ids`` says how many ids each card has left for it; ``must_be`` is the card where the ids are already
    chosen. Raises NoCandidateError that says who waits for what.
    """
    for candidate in waiting:
        right_card = must_be is None or candidate.index == must_be
        if candidate.units == units and right_card and free_ids.get(candidate.index, 0) >= units:
            return candidate
    raise NoCandidateError(_why_nobody(waiting, units, free_ids, must_be))


def _why_nobody(waiting: Sequence[Candidate], units: int, free_ids: Mapping[int, int], must_be: int | None) -> str:
    same = [candidate for candidate in waiting if candidate.units == units]
    if not same:
        asked = ", ".join(f"{one.namespace}/{one.pod} {one.units}" for one in waiting[:5]) or "none"
        return f"no pod bound to this node with a card waits for {units} units (waiting: {asked})"
    first = same[0]
    pod = f"{first.namespace}/{first.pod}"
    if must_be is not None and all(one.index != must_be for one in same):
        return f"the kubelet chose ids of card {must_be}, but pod {pod} has card {first.index}"
    return f"card {first.index} has {free_ids.get(first.index, 0)} units left for the {units} of pod {pod}"
