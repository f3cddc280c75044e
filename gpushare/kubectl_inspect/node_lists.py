"""The lists of a report: nodes and the pods that are bound to them, of all namespaces or, for a caller of few rights, of one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from gpushare.cli.kubectl_flags import path_of
from gpushare.kube.api_errors import MissingRightError, NotFoundError
from gpushare.kube.client import ApiClient
from gpushare.kubectl_inspect.core.card_report import BoundPod, bound_pod, nodes_of_pods
from gpushare.kubectl_inspect.inspect_arguments import Arguments
from gpushare.manifests import Node, ObjectMeta, Pod, PodOutline

NODES_HIDDEN: Final = "nodes (you may not list them): only cards that pods of the namespace have are shown"
PODS_HIDDEN: Final = "pods of other namespaces (you may not list them): a card may have more allocated than is shown"
_ADVICE: Final = "; with -n NAMESPACE the pods of one namespace are enough"


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
            await client.read_each("/api/v1/nodes", Node, lists.take_node, selector)
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
