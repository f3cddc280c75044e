"""The bookings of the node's pods: which card is written, which one a pod has, whether it may be changed, and in which unit. Pure.

An amount of ``aliyun.com/gpu-mem`` is a number without its unit, in the pod, in the kubelet's records and in the scheduler's sums.
After a change of ``--memory-unit``, or of the plugin, 14 of 15 units would be 14 of 15,360, and the card would be promised twice.
So the plugin does not serve the node in the new unit while such pods are there. It reports which pods these are and waits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import islice

from gpushare import wire
from gpushare.deviceplugin.core.devices import DeviceIds
from gpushare.deviceplugin.core.holdings import Grant, Holdings, used_units
from gpushare.deviceplugin.core.kept_pods import KeptPod, shown_allocation
from gpushare.deviceplugin.core.repair import PodCard
from gpushare.errors import InvalidQuantityError
from gpushare.manifests import Node, PodStatus
from gpushare.model.allocation import Allocation, sum_by_card
from gpushare.model.cards import CardFacts, NodeCards
from gpushare.model.node import capacity, described_cards, unit_of_size
from gpushare.model.pod import container_statuses
from gpushare.model.quantity import MemoryUnit

# So many pods are named in a reason.
_NAMED = 5


def pod_cards(
    pods: Iterable[KeptPod], holdings: Holdings, *, repairs: bool, refused: Collection[str] = ()
) -> tuple[PodCard, ...]:
    """The pods that are booked on one card, in their order; ``repairs`` are switched on.

    ``refused`` are pods, by uid, that the API server refuses to change now.
    """
    return tuple(
        _pod_card(pod, pod.allocation, holdings, repairs and pod.metadata.uid not in refused)
        for pod in pods
        if pod.allocation is not None and pod.allocation.by_container is None
    )


def _pod_card(pod: KeptPod, allocation: Allocation, holdings: Holdings, repairs: bool) -> PodCard:
    uid, index = pod.metadata.uid, allocation.index
    grants = holdings.of_pod(uid)
    certain = [grant for grant in grants if not grant.is_guess]
    cards = {card for grant in certain for card in grant.card_of.values()}
    # A pod that has started without ids that can be read is taken to be on the card that is written on it.
    ids_on: int | None = index
    answered = None
    movable = repairs and why_fixed(pod) is None
    if len(cards) == 1:
        ids_on = cards.pop()
    elif cards:
        movable = False
    elif not certain and not pod.was_started:
        ids_on = None
        answered = min(holdings.cards(uid), default=None)
    return PodCard(uid, allocation.units, index, ids_on, allocation.repair, movable, answered)


def why_fixed(pod: KeptPod) -> str | None:
    """Why the card of a pod may not be changed, or None if it may."""
    annotations = pod.metadata.annotations or {}
    if annotations.get(wire.ANNOTATION_EXTENDER) != wire.EXTENDER_BOOK:
        return "the extender that bound it would not follow a change of its card"
    wish = next((name for name in wire.CARD_WISHES if name in annotations), None)
    return f"it wishes for a card ({wish})" if wish is not None else None


def open_units(pods: Iterable[KeptPod], holdings: Holdings, cards: Iterable[CardFacts]) -> dict[int, int]:
    """Units of each healthy card that pods on one card may have: all but what pods on several cards, or without one, have."""
    fixed: Counter[int] = Counter()
    for pod in pods:
        allocation = pod.allocation
        if allocation is None:
            fixed.update(card for grant in holdings.of_pod(pod.metadata.uid) for card in grant.card_of.values())
        elif allocation.by_container is not None:
            fixed.update(dict(allocation.shares))
    return {card.index: max(card.units - fixed[card.index], 0) for card in cards if card.healthy}


def kept_ids(
    holdings: Holdings, pods: Iterable[KeptPod], cards: Sequence[CardFacts], *, counts_slots: bool
) -> frozenset[str]:
    """The ids of unhealthy cards that stay announced as healthy, because pods have them (docs/decisions/23).

    Allocatable is then what healthy cards have and what is held of the others, as in kube-scheduler's sum. Units that pods hold
    without an id of ours (``used_units``) keep as many free ids, on which no container starts: the last guard refuses them.
    """
    held = {one for grant in holdings.grants for one in grant.card_of}
    used = Counter[int]() if counts_slots else used_units(holdings, pods, counts_slots=False)
    ids = DeviceIds(cards)
    kept: set[str] = set()
    for card in cards:
        if not card.healthy:
            of_card = ids.of_card(card)
            kept.update(found := held.intersection(of_card))
            free = (one for one in of_card if one not in held)
            kept.update(islice(free, max(used[card.index] - len(found), 0)))
    return frozenset(kept)


def allocation_by_book(pod: KeptPod, grants: Sequence[Grant], *, counts_slots: bool) -> Allocation | None:
    """The cards that a pod has by the kubelet's records, if they must be written; None if the annotations are right or may follow.

    A container starts only once its card is written, so what a container that has run has is what was written. An annotation on
    which a person wrote the card of a pod that is held is right as well.
    """
    if not pod.units or (counts_slots and not pod.keeps_rule_of_slots):
        return None
    certain = [grant for grant in grants if not grant.is_guess and grant.card_of]
    cards = {card for grant in certain for card in grant.card_of.values()}
    counts = pod.allocation
    if len(cards) == 1:
        return _on_one_card(pod, cards.pop(), certain, counts)
    has = _on_several_cards(pod, certain) if cards and not counts_slots else None
    return None if has is None or (counts is not None and counts.by_container == has.by_container) else has


def _on_one_card(pod: KeptPod, card: int, certain: Sequence[Grant], counts: Allocation | None) -> Allocation | None:
    if counts is not None and counts.shares == ((card, counts.units),):
        return None
    if not any(_has_run(pod, grant.container) for grant in certain):
        written = shown_allocation(pod)
        if written is None or written.by_container is not None or written.index != card:
            return None
    return Allocation(((card, pod.units),), assigned=pod.was_started)


def _on_several_cards(pod: KeptPod, certain: Sequence[Grant]) -> Allocation | None:
    """Only for a pod with containers that have all run: one that is held could be on a wrong card."""
    by_name = {grant.container: dict(sorted(grant.by_card.items())) for grant in certain}
    asked = dict(pod.gpu_containers)
    names = [container.name for container in pod.spec.containers or ()]
    if not all(sum(by_name.get(name, {}).values()) == asked[name] and _has_run(pod, name) for name in asked):
        return None
    by_container = {names.index(name): tuple(by_name[name].items()) for name in asked if name in names}
    return Allocation(sum_by_card(by_container), assigned=True, by_container=by_container)


def _has_run(pod: KeptPod, container: str) -> bool:
    """Does the kubelet report that this container runs, or that it ran?"""
    states = [one.state for one in container_statuses(pod) if one.name == container and one.state is not None]
    is_running = (pod.status or PodStatus()).phase == "Running"
    return is_running or any(one.running is not None or one.terminated is not None for one in states)


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
    # A pod is of the present unit if its card has one of these sizes, or if nothing shows another.
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
