"""Follow nodes and pods: the whole report first, then each node of which something in it changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

from gpushare.kube.client import ApiClient
from gpushare.kube.reflector import HasMetadata, Reflector
from gpushare.kubectl_inspect.core.card_report import NodeReport, bound_pod, report
from gpushare.kubectl_inspect.inspect_arguments import Arguments
from gpushare.manifests import Node, ObjectMeta, Pod, PodOutline

_T = TypeVar("_T", bound=HasMetadata)
_K = TypeVar("_K")
# Changes that come together are shown together, in seconds.
_TOGETHER: Final = 0.2

Show = Callable[[Sequence[NodeReport], Sequence[str], bool], None]
"""Shows nodes, problems of all nodes, and whether these are the first."""


class _Kept(Generic[_T, _K]):
    """The part of each object that ``keep`` answers, by namespace and name; None is of one that does not matter."""

    def __init__(self, changed: asyncio.Event, keep: Callable[[_T], _K | None]) -> None:
        self.items: dict[tuple[str, str], _K] = {}
        self.unreadable: dict[tuple[str, str], PodOutline] = {}
        self._changed, self._keep = changed, keep

    def set(self, item: _T) -> None:
        kept = self._keep(item)
        self.remove(item.metadata)
        if kept is not None:
            self.items[item.metadata.namespace, item.metadata.name] = kept
            self._changed.set()

    def set_unreadable(self, pod: PodOutline) -> None:
        self.remove(pod.metadata)
        self.unreadable[pod.metadata.namespace, pod.metadata.name] = pod
        self._changed.set()

    def remove(self, metadata: ObjectMeta) -> None:
        key = metadata.namespace, metadata.name
        if self.items.pop(key, None) is not None or self.unreadable.pop(key, None) is not None:
            self._changed.set()

    def restart_history(self) -> None:
        """A list follows, and removes what it does not show."""


async def follow(asked: Arguments, client: ApiClient, show: Show) -> None:
    """Show until cancelled. The first list of each kind has to succeed; later the API server may be away."""
    changed = asyncio.Event()
    nodes, pods = _Kept[Node, Node](changed, lambda node: node), _Kept(changed, bound_pod)
    labels = asked.selector or None
    by_name = next((f"metadata.name={name}" for name in asked.nodes), None)
    on_node = next((f"spec.nodeName={name}" for name in asked.nodes), None)
    on_nodes = Reflector(client, "/api/v1/nodes", Node, nodes, field_selector=by_name, label_selector=labels)
    on_pods = Reflector(client, "/api/v1/pods", Pod, pods, field_selector=on_node, on_unreadable=pods.set_unreadable)
    async with asyncio.TaskGroup() as group:
        group.create_task(on_nodes.run())
        group.create_task(on_pods.run())
        await on_nodes.synced.wait()
        await on_pods.synced.wait()
        shown: dict[str, NodeReport] | None = None
        while True:
            changed.clear()
            reports, problems = report(nodes.items.values(), pods.items.values(), pods.unreadable.values())
            news = [one for one in reports if shown is None or shown.get(one.name) != one]
            if news or shown is None:
                show(news, problems, shown is None)
            shown = {one.name: one for one in reports}
            await changed.wait()
            await asyncio.sleep(_TOGETHER)
