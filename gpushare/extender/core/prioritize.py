"""How good each node is for a pod: 0 to 10, as kube-scheduler wants it of an extender. Pure.

``binpack`` likes nodes and cards that are full, so that whole cards and whole nodes stay free; ``spread`` the empty ones. Both say
how full they are, half the node and half the card that the pod would get. ``fragmentation`` compares the nodes that are asked: the
one on which least comes to be wasted gets 10, and none that is worse does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, cast

from gpushare import wire
from gpushare.model.forecast import cards_of
from gpushare.model.node import NodeInfo
from gpushare.model.placement import Question, Snapshot, find, without

# The highest score of an extender (MaxExtenderPriority in k8s.io/kube-scheduler/extender/v1).
BEST: Final = 10
_ALIKE: Final = 1e-6
_DOES_NOT_FIT: Final = math.inf


def prioritize(
    asked: Question, names: Sequence[str], snapshot: Snapshot, known: dict[str, float] | None = None
) -> dict[str, int]:
    """A score for every name. A node that does not hold the pod gets 0; for a pod that asks nothing most policies find all alike.

    ``known`` are the values of nodes that have not changed since, for the same question: their scores, or their costs if nodes
    are compared (infinite: it does not hold the pod). It is added to.
    """
    if asked.request.units == 0 and asked.forecast is None:
        return dict.fromkeys(names, 0)
    worth = {} if known is None else known
    try:
        found = list(map(worth.__getitem__, names))
    except KeyError:
        found = _looked_at(asked, names, snapshot, worth)
    if asked.forecast is not None:
        return _compared(names, found)
    return cast("dict[str, int]", dict(zip(names, found, strict=True)))


def _looked_at(asked: Question, names: Sequence[str], snapshot: Snapshot, worth: dict[str, float]) -> list[float]:
    """The value of each node; unknown values are computed and noted. Unknown nodes have none."""
    worth_of, least = (_cost_of, _DOES_NOT_FIT) if asked.forecast is not None else (_score_of, 0)
    for name in names:
        if name not in worth and (node := snapshot.nodes.get(name)) is not None:
            worth[name] = worth_of(node, asked)
    return [worth.get(name, least) for name in names]


def _score_of(node: NodeInfo, asked: Question) -> int:
    """By itself, whatever the others are: how full it would be, or how empty it was."""
    shares = find(node, asked)
    if isinstance(shares, str):
        return 0
    taken = dict(shares)
    cards = [device for device in node.devices if device.index in taken]
    of_cards = (sum(card.used for card in cards) + asked.request.units) / sum(card.total for card in cards)
    full = (of_cards + min((node.used + asked.request.units) / node.total, 1.0)) / 2
    return round(BEST * (1 - full if asked.policy == wire.POLICY_SPREAD else full))


def _cost_of(node: NodeInfo, asked: Question) -> float:
    """Units of the node's memory that will stay unused with the pod, and did not without it: the less, the better."""
    forecast = asked.forecast
    assert forecast is not None
    shares = find(node, asked) if asked.request.units else ()
    if isinstance(shares, str):
        return _DOES_NOT_FIT
    before = after = cards_of(node)
    cards = {device.index: device for device in node.devices}
    for index, units in shares:
        card = cards[index]
        after = without(after, (card.free, card.total, card.model), units)
    return forecast.waste(after, asked.cpu_left(node.name)) - forecast.waste(before, asked.free_cpu.get(node.name))


def _compared(names: Sequence[str], found: Sequence[float]) -> dict[str, int]:
    """Alike are all the best: there is nothing to choose by, and what sums of fractions differ by is nothing."""
    finite = [cost for cost in found if cost != _DOES_NOT_FIT]
    least, most = min(finite, default=0.0), max(finite, default=0.0)
    scale = BEST / (most - least) if most - least > _ALIKE else 0.0

    def score(cost: float) -> int:
        if cost == _DOES_NOT_FIT:
            return 0
        return BEST if cost - least <= _ALIKE else min(round(BEST - scale * (cost - least)), BEST - 1)

    return {name: score(cost) for name, cost in zip(names, found, strict=True)}
