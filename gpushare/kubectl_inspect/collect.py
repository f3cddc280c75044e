"""Ask the API server for nodes and pods: two lists, or one node and its pods."""

from __future__ import annotations

from gpushare.kube.api_errors import NotFoundError
from gpushare.kube.client import ApiClient
from gpushare.manifests import Node, Pod


async def collect(client: ApiClient, node_name: str | None) -> tuple[list[Node], list[Pod]]:
    """All nodes and pods, or one node and what runs on it. Raises ApiError."""
    if node_name is None:
        return await client.list_nodes(), await client.list_pods()
    try:
        node = await client.get_node(node_name)
    except NotFoundError as error:
        raise NotFoundError(f"there is no node {node_name!r}; `kubectl get nodes` lists them", error.code) from error
    return [node], await client.list_pods(f"spec.nodeName={node_name}")
