"""The lists of a report: nodes and the pods that are bound to them, of all namespaces or, for a caller of few rights, of one.

With a watch nodes and pods are followed: the whole report comes first, then each node of which something in it changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from gpushare.cli.kubectl_flags import path_of
from gpushare.kube.api_errors import MissingRightError, NotFoundError
from gpushare.kube.client import ApiClient
from gpushare.kube.reflector import HasMetadata, Reflector
from gpushare.kubectl_inspect.core.card_report import BoundPod, Finding, NodeReport, bound_pod, nodes_of_pods, report
from gpushare.kubectl_inspect.inspect_arguments import Arguments
from gpushare.manifests import Node, ObjectMeta, Pod, PodOutline, ReportedNode

NODES_HIDDEN: Final = "nodes (you may not list them): only cards that pods of the namespace have are shown"
PODS_HIDDEN: Final = "pods of other namespaces (you may not list them): a card may have more allocated than is shown"
_ADVICE: Final = "; with -n NAMESPACE the pods of one namespace are enough"
_T = TypeVar("_T", bound=HasMetadata)
_K = TypeVar("_K")
# Changes that come together are shown together, in seconds.
_TOGETHER: Final = 0.2


@dataclass(slots=True)
class Lists:
    """``hidden`` is what the caller may not read."""

    nodes: list[Node] = field(default_factory=list)
    pods: list[BoundPod] = field(default_factory=list)
    unreadable: list[PodOutline] = field(default_factory=list)
    hidden: list[str] = field(default_factory=list)

    def take_node(self, node: Node) -> None:
        """A node of the list; its labels are in no report."""
        metadata = node.metadata
        node.metadata = ObjectMeta(metadata.name, annotations=metadata.annotations)
        self.nodes.append(node)

    async def read_pods(
        self,
        client: ApiClient,
        path: str = "/api/v1/pods",
        selector: Mapping[str, str] | None = None,
        see: Callable[[Pod], object] = lambda pod: None,
    ) -> None:
        """The pods of a list, each of which ``see`` is called with. Raises ApiError."""

        def take(pod: Pod) -> None:
            see(pod)
            if (bound := bound_pod(pod)) is not None:
                self.pods.append(bound)

        await client.read_each(path, Pod, take, selector, self.unreadable.append)


async def read_lists(asked: Arguments, client: ApiClient) -> Lists:
    """All nodes and pods, or some nodes and their pods. Raises GpushareError."""
    lists = Lists()
    try:
        for name in asked.nodes:
            lists.take_node(await _node(client, name))
        if not asked.nodes:
            selector = {"labelSelector": asked.selector} if asked.selector else None
            await client.read_each("/api/v1/nodes", ReportedNode, lists.take_node, selector)
    except MissingRightError as error:
        lists.hidden.append(_unless_needed(error, asked, NODES_HIDDEN))
    await _read_pods(asked, client, lists)
    if NODES_HIDDEN in lists.hidden:
        lists.nodes = nodes_of_pods(lists.pods)
    else:
        names = {node.metadata.name for node in lists.nodes}
        lists.pods = [pod for pod in lists.pods if pod.node in names or not asked.selector]
        lists.unreadable = [pod for pod in lists.unreadable if pod.spec.node_name in names or not asked.selector]
    return lists


async def _node(client: ApiClient, name: str) -> Node:
    try:
        return await client.get_node(name)
    except NotFoundError as error:
        raise NotFoundError(f"there is no node {name!r}; `kubectl get nodes` lists them", error.code) from error


async def _read_pods(asked: Arguments, client: ApiClient, lists: Lists) -> None:
    async def read(path: str) -> None:
        for name in asked.nodes or ("",):
            await lists.read_pods(client, path, {"fieldSelector": f"spec.nodeName={name}"} if name else None)

    try:
        await read("/api/v1/pods")
    except MissingRightError as error:
        lists.hidden.append(_unless_needed(error, asked, PODS_HIDDEN))
        await read(path_of("pod", asked.of_namespace or ""))


def _unless_needed(error: MissingRightError, asked: Arguments, hidden: str) -> str:
    """The text, if one namespace is enough for the answer. Raises the error otherwise."""
    if asked.of_namespace is None or asked.selector:
        raise MissingRightError(f"{error}{'' if asked.selector else _ADVICE}", error.code, error.reason) from error
    return hidden


Show = Callable[[Sequence[NodeReport], Sequence[Finding], bool], None]
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
