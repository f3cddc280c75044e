"""May a pod that was bound to this node run here? The last check, after devices were allocated. Pure.

Rules: Kubernetes pkg/kubelet/lifecycle/predicate.go. The reason names the first resource that is short.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from clusters.amounts import Amounts, amounts_of, is_extended_resource, requests_of, total
from clusters.kubelet.pods import Object

_CHECKED_FIRST: Final = ("pods", "cpu", "memory", "ephemeral-storage")


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a pod ends before it began: ``status.reason`` and ``status.message``."""

    reason: str
    message: str


def device_rejection(error: Exception) -> Rejection:
    """The end of a pod that did not get its devices; nothing tries it again."""
    return Rejection(
        "UnexpectedAdmissionError",
        f"Pod was rejected: Allocate failed due to {error}, which is unexpected",
    )


def resource_rejection(
    pod: Object, others: Iterable[Object], allocatable: Mapping[str, str], held: Mapping[str, int]
) -> Rejection | None:
    """The first resource of which the node has too little, or None.

    ``others`` are the pods that run here, ``allocatable`` is the node's status, ``held`` how many devices containers
    have of each resource: what is allocated counts as present, so that a running pod is let in again after a restart
    although its plugin has not come back. Extended resources that the node does not know are not checked.
    """
    have = amounts_of(allocatable)
    for name, count in held.items():
        have[name] = max(have.get(name, 0), count)
    asked, used = _asked(pod), total(map(_asked, others))
    for name in sorted(asked, key=_rank):
        unknown = name not in have and is_extended_resource(name)
        if asked[name] and not unknown and used.get(name, 0) + asked[name] > have.get(name, 0):
            return Rejection(
                f"OutOf{name}",
                f"Pod was rejected: Node didn't have enough resource: {name}, "
                f"requested: {asked[name]}, used: {used.get(name, 0)}, capacity: {have.get(name, 0)}",
            )
    return None


def _asked(pod: Object) -> Amounts:
    return requests_of(pod) | {"pods": 1}


def _rank(name: str) -> tuple[int, str]:
    return (_CHECKED_FIRST.index(name) if name in _CHECKED_FIRST else len(_CHECKED_FIRST), name)
