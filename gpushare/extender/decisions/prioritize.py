"""How good each node is for a pod: 0 to 10, as kube-scheduler wants it of an extender. Pure.

``binpack`` likes nodes and cards that are full, so that whole cards and whole nodes stay free; ``spread`` the empty ones. Both say
how full they are, half the node and half the card that the pod would get. ``fragmentation`` compares the nodes that are asked:
the one whose free memory loses least of its use gets 10, the one that loses most 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from gpushare import wire
from gpushare.extender.decisions.placement import Question, Shares, find
from gpushare.extender.decisions.policies import gradient
from gpushare.model.node import NodeInfo
from gpushare.model.snapshot import Snapshot

# What an extender's score may be at most (MaxExtenderPriority in k8s.io/kube-scheduler/extender/v1).
BEST: Final = 10
_ALIKE: Final = 1e-6


def prioritize(
    asked: Question, names: Sequence[str], snapshot: Snapshot, known: dict[str, int] | None = None
) -> dict[str, int]:
    """A score for every name. A node that does not hold the pod gets 0; for a pod that asks nothing all are alike.

    ``known`` are scores for the same question of nodes that have not changed since; it is added to.
    """
    if asked.request.units == 0:
        return dict.fromkeys(names, 0)
    if asked.policy == wire.POLICY_FRAGMENTATION:
        scores = _compared(_costs(asked, names, snapshot))
    else:
        scores = {} if known is None else known
        new = [name for name in names if name not in scores]
        scores.update((name, round(BEST * (1 - cost))) for name, cost in _costs(asked, new, snapshot).items())
    return {name: scores.get(name, 0) for name in names}


def _costs(asked: Question, names: Iterable[str], snapshot: Snapshot) -> dict[str, float]:
    """Of the nodes that hold the pod; the less, the better."""
    costs: dict[str, float] = {}
    for name in names:
        node = snapshot.nodes.get(name)
        shares = find(node, asked) if node is not None else ""
        if node is not None and not isinstance(shares, str):
            costs[name] = _cost(node, shares, asked)
    return costs


def _cost(node: NodeInfo, shares: Shares, asked: Question) -> float:
    taken = dict(shares)
    cards = [device for device in node.devices if device.index in taken]
    if asked.policy == wire.POLICY_FRAGMENTATION:
        return sum(gradient(card.free, card.total, taken[card.index], asked.sizes) for card in cards)
    units = asked.request.units
    of_cards = (sum(card.used for card in cards) + units) / sum(card.total for card in cards)
    full = (of_cards + min((node.used + units) / node.total, 1.0)) / 2
    return full if asked.policy == wire.POLICY_SPREAD else 1 - full


def _compared(costs: dict[str, float]) -> dict[str, int]:
    """Alike are all the best: there is nothing to choose by, and what sums of fractions differ by is nothing."""
    least, most = min(costs.values(), default=0.0), max(costs.values(), default=0.0)
    scale = BEST / (most - least) if most - least > _ALIKE else 0.0
    return {name: round(BEST - scale * (cost - least)) for name, cost in costs.items()}
