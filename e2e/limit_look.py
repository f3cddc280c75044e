"""The limits that the simulated driver of a node enforces, and what its device plugin publishes of them, at one moment."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

from clusters.api.resources import EVENTS, NODES, PODS
from clusters.provider import DEVICE_PLUGIN, Cluster
from e2e.checkers.memory_limits import (
    ENFORCED,
    Limit,
    LimitedNode,
    counts,
    held_cards,
    wrong_annotations,
    wrong_condition,
    wrong_events,
    wrong_gauge,
    wrong_limits,
)
from e2e.metrics import port_in, series_in
from e2e.observer import Observer
from fake_nvml.state import State


def limit_table(cluster: Cluster, node: str) -> dict[tuple[str, int], Limit]:
    """The driver's limits, by container id and index of the card: each of the nearest control group above that has one."""
    root = cluster.kubelet_folder(node) / "cgroup"
    index = {card["uuid"]: card["index"] for card in cluster.cards(node)}
    with State.open(cluster.nvml_state(node)) as state:
        rows = {(one.cgroup, index[one.card]): Limit(one.soft, one.hard) for one in state.limits()}
    found = dict[tuple[str, int], Limit]()
    for folder in root.rglob("*/"):
        for card in index.values():
            own = (rows.get((inode, card)) for inode in _chain(folder, root))
            if (limit := next(filter(None, own), None)) is not None:
                found[folder.name, card] = limit
    return found


def _chain(folder: Path, root: Path) -> list[int]:
    above = [folder, *(one for one in folder.parents if one.is_relative_to(root))]
    try:
        return [one.stat().st_ino for one in above]
    except FileNotFoundError:
        return []


class LimitLook:
    """Looks at nodes of one cluster again and again. ``publishes`` is whether their plugins publish metrics."""

    def __init__(self, observer: Observer, *, publishes: bool) -> None:
        self._observer, self._cluster, self._publishes = observer, observer.cluster, publishes
        self._before = defaultdict[str, set[str]](set)
        self.judged = 0
        """The containers that were running at the last look."""
        self.exact = 0
        """The containers that were seen with their exact limit."""

    async def wrong(self, name: str, **facts: Any) -> list[str]:
        """The findings about the limits of a node and their reports; ``facts`` are fields of ``LimitedNode``."""
        api = self._cluster.api
        pods, item, events = await api.list(PODS), await api.get(NODES, name), await api.list(EVENTS)
        mib = {card["index"]: card["memory"]["total_mib"] for card in self._cluster.cards(name)}
        node = LimitedNode(name, mib, limit_table(self._cluster, name), **facts)
        held = held_cards(pods, node)
        found = [*wrong_limits(held), *wrong_annotations(held), *wrong_condition(held, node, item)]
        found += wrong_events(held, node, events, self._before)
        if self._publishes:
            port = port_in(self._cluster.log(DEVICE_PLUGIN, name))
            page = (await self._observer.get(f"http://127.0.0.1:{port}/metrics")).text
            found += wrong_gauge(held, node, series_in(page))
        for one in held if not found else ():
            self._before[one.pod["metadata"]["uid"]].add(one.state)
        self.judged = counts(held).total()
        self.exact += counts(held)[ENFORCED]
        return found
