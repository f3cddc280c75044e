"""Nodes and bound pods that are objects alone, laid into a cluster for one case."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

from clusters.api.resources import NODES
from clusters.api.waiting import eventually
from e2e import spec
from e2e.observer import Observer

Object = dict[str, Any]


@contextlib.asynccontextmanager
async def laid_out(observer: Observer, nodes: Sequence[Object], pods: Sequence[Object]) -> AsyncIterator[None]:
    """Nodes and pods are there inside, and the extender knows them; afterwards it has forgotten them."""
    names = {node["metadata"]["name"] for node in nodes}
    placed = {pod["metadata"]["name"] for pod in pods if spec.POD_INDEX in pod["metadata"]["annotations"]}

    def is_known(book: Any) -> bool:
        known = book.get("nodes") or ()
        booked = {pod["name"] for node in known for card in node["devs"] for pod in card["pods"]}
        return {node["name"] for node in known} == names and booked == placed

    api = observer.cluster.api
    for node in nodes:
        await api.create(node)
    try:
        for pod in pods:
            await observer.create(pod)
        await eventually(observer.inspect, is_known, "the extender knows nodes and pods")
        yield
        await observer.clear()
    finally:
        for name in names:
            await api.delete(NODES, name)
        # The next case may have a node of the same name.
        await eventually(observer.inspect, lambda book: not book.get("nodes"), "the extender has forgotten the nodes")
