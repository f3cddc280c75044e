"""The pods of each card, by the pods in the API server's history: a judge that knows nothing of the extender's book. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from gpushare import wire
from load.simulated.simulated_world import Node


class _Share(NamedTuple):
    """A pod's part of a card."""

    node: str
    card: int
    units: int


class Cards:
    """The cards of all nodes. ``over_booked`` counts pods that came to a card that had no room for them.

    ``without_a_card`` counts those that came to a node without one, or with one that is not there.
    """

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._holds = {node.name: (node.cards, node.card_units) for node in nodes}
        self._used = Counter[tuple[str, int]]()
        self._shares: dict[str, _Share | None] = {}
        self.over_booked = 0
        self.without_a_card = 0

    def see(self, kind: str, pod: Mapping[str, Any]) -> None:
        """An event of the watch. A pod has its share from when it is bound until it is gone, whatever its states are in between."""
        name = pod["metadata"]["name"]
        if kind == "DELETED":
            share = self._shares.pop(name, None)
            if share is not None:
                self._used[share.node, share.card] -= share.units
        elif pod["spec"].get("nodeName") and name not in self._shares:
            self._shares[name] = self._book(pod)

    def _book(self, pod: Mapping[str, Any]) -> _Share | None:
        node = pod["spec"]["nodeName"]
        cards, card_units = self._holds.get(node, (0, 0))
        annotations = pod["metadata"].get("annotations") or {}
        index = annotations.get(wire.ANNOTATION_INDEX, "")
        if not (index.isdecimal() and int(index) < cards):
            self.without_a_card += 1
            return None
        share = _Share(node, int(index), _units(pod))
        self._used[node, share.card] += share.units
        self.over_booked += self._used[node, share.card] > card_units
        return share


def _units(pod: Mapping[str, Any]) -> int:
    return sum(int(one["resources"]["limits"][wire.RESOURCE_MEMORY]) for one in pod["spec"]["containers"])
