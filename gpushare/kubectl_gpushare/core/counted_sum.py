"""The sum that kube-scheduler counts of a shared resource of a node, where the node's cards would have room. Pure.

kube-scheduler compares the requests of all pods of a node with allocatable (its plugin NodeResourcesFit). A pod without a healthy
card counts there, too, and allocatable is without the devices that the kubelet calls unhealthy, which our book need not know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from gpushare import wire
from gpushare.kubectl_gpushare.core.node_rules import Amounts, amounts_of
from gpushare.manifests import Pod
from gpushare.model.node import NodeInfo
from gpushare.model.pod import is_deleting

OURS: Final = (wire.RESOURCE_MEMORY, wire.RESOURCE_SLOT, wire.RESOURCE_COUNT)
_THOUSAND: Final = 1000
_MOST_NAMED: Final = 10


class CountedPod(NamedTuple):
    """A bound pod that has not ended, with its amounts of our resources in thousandths."""

    uid: str
    namespace: str
    name: str
    priority: int
    is_ending: bool
    amounts: Amounts

    def units(self, resource: str) -> int:
        """Its whole units of a resource."""
        return self.amounts.get(resource, 0) // _THOUSAND


def counted_pod(pod: Pod) -> CountedPod | None:
    """The pod as it counts; None if it asks for nothing of ours."""
    amounts = {name: amount for name, amount in amounts_of(pod).items() if name in OURS}
    meta = pod.metadata
    return (
        CountedPod(meta.uid, meta.namespace, meta.name, pod.spec.priority or 0, is_deleting(pod), amounts)
        if amounts
        else None
    )


class Shortage(NamedTuple):
    """A resource of ours that the node has too little of in sum. ``ends`` are the pods whose end makes room, none if none does."""

    resource: str
    text: str
    ends: Sequence[CountedPod]


def shortage(
    info: NodeInfo,
    whole: int,
    resource: str,
    wanted: Amounts,
    allocatable: Amounts,
    free: Mapping[str, int],
    pods: Sequence[CountedPod],
) -> Shortage:
    """The numbers of a node's sum, with the pods that have none of its healthy cards.

    Amounts are in thousandths; ``whole`` is the capacity in units.
    """
    offered, missing = allocatable.get(resource, 0), wanted[resource] - free.get(resource, 0)
    healthy = {device.index for device in info.devices if device.healthy}
    placed = {one.uid for one in info.bookings if any(card in healthy for card, _ in one.shares)}
    holders = [one for one in pods if one.units(resource)]
    without = [one for one in holders if one.uid not in placed]
    counted, lost = (offered - free.get(resource, 0)) // _THOUSAND, sum(one.units(resource) for one in without)
    ends = _ends(holders, resource, missing, placed)
    text = (
        f"node {info.name}: {counted} of its {offered // _THOUSAND} allocatable {resource} are counted for pods, {lost} of them "
        "for pods on an unhealthy or removed card or on none"
    )
    if offered < whole * _THOUSAND:
        text += f"; the node has {whole} in all, and its kubelet takes the others to be unhealthy"
    if named := ", ".join(f"{one.namespace}/{one.name} ({one.units(resource)})" for one in ends[:_MOST_NAMED]):
        more = f", and {len(ends) - _MOST_NAMED} more" if len(ends) > _MOST_NAMED else ""
        text += f"; the end of {named}{more} makes room"
    return Shortage(resource, text, ends)


def _ends(holders: Sequence[CountedPod], resource: str, missing: int, placed: set[str]) -> Sequence[CountedPod]:
    """Pods that go anyway come first, then those without a healthy card, then those of the lowest priority, then the largest."""
    chosen: list[CountedPod] = []
    for one in sorted(
        holders, key=lambda one: (not one.is_ending, one.uid in placed, one.priority, -one.amounts[resource], one.uid)
    ):
        if missing <= 0:
            break
        chosen.append(one)
        missing -= one.amounts[resource]
    return chosen if missing <= 0 else ()
