"""Before a node counts in another unit: the pods that were bound in its former unit must end first. Pure.

An amount of ``aliyun.com/gpu-mem`` is a number without its unit, in the pod, in the kubelet's records and in the scheduler's sums.
After a change of ``--memory-unit``, or of the plugin, 14 of 15 units would be 14 of 15,360, and the card would be promised twice.
So the plugin does not serve the node in the new unit while such pods are there. It reports which pods these are and waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpushare import wire
from gpushare.deviceplugin.core.kept_pods import KeptPod
from gpushare.errors import InvalidQuantityError
from gpushare.manifests import Node
from gpushare.model.cards import NodeCards
from gpushare.model.node import capacity, described_cards, unit_of_size
from gpushare.model.quantity import MemoryUnit

# So many pods are named in a reason.
_NAMED = 5


def unit_before(node: Node) -> MemoryUnit | None:
    """The unit that a plugin of ours announced for the node, or None if the last plugin was another one.

    The Go plugin leaves our annotation behind, but its sum is another one. A kubelet shows 0 if no plugin serves it.
    """
    cards = described_cards(node).cards
    if cards is None or capacity(node, wire.RESOURCE_MEMORY) not in (0, sum(card.units for card in cards.cards)):
        return None
    try:
        return MemoryUnit.parse(cards.unit)
    except InvalidQuantityError:
        return None


def pods_of_other_units(pods: Iterable[KeptPod], cards: NodeCards, before: MemoryUnit | None) -> tuple[KeptPod, ...]:
    """The pods with a card that were bound in another unit than ``cards`` count in; ``before`` is the node's former unit.

    If that is not known, the size of the card that was written on each pod shows its unit.
    """
    unit = MemoryUnit.parse(cards.unit)
    # A pod whose card has one of these sizes is of the present unit, and so is one if nothing shows another.
    sizes = {0, *(card.units for card in cards.cards)}
    found = []
    for pod in pods:
        allocation = pod.allocation
        if allocation is None and not pod.was_started:
            continue
        size = allocation.card_size if allocation is not None else 0
        if (before or (unit if size in sizes else MemoryUnit(unit_of_size(size)))) != unit:
            found.append(pod)
    return tuple(found)


def advice(pods: Sequence[KeptPod], unit: str, before: MemoryUnit | None) -> str:
    """The reason for the wait, and the steps of an operator; "" if there is no such pod."""
    if not pods:
        return ""
    names = sorted(f"{pod.metadata.namespace}/{pod.metadata.name}" for pod in pods)
    listed = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
    former = str(before) if before is not None else "another unit"
    return (
        f"not served in {unit} yet, because pods hold card memory in {former} ({len(names)}: {listed}). Drain the node or end "
        f"these pods, and the device plugin goes on by itself; or start it with the former --memory-unit"
    )
