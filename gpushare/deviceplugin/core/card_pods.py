"""Which pods of the node name which card. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from gpushare.deviceplugin.core.kept_pods import allocation_of
from gpushare.manifests import Pod
from gpushare.model.pod import is_finished


def indices_of(pod: Pod) -> frozenset[int]:
    """Card indices that a pod which has not ended names, the one that a repair marks too."""
    allocation = None if is_finished(pod) else allocation_of(pod)
    return frozenset(index for index, _ in allocation.booked) if allocation is not None else frozenset()


def indices_in_use(pods: Iterable[Pod]) -> frozenset[int]:
    """Card indices that any of these pods names: no other card may get one of them."""
    return frozenset(index for pod in pods for index in indices_of(pod))
