"""Actions on a node through the API, the same on every kind of cluster: announce its cards, delete its Node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from clusters.api.api_client import ApiClient, ApiError
from clusters.api.resources import NODES, PODS

# One GiB, which is a plugin's unit unless a flag names another.
_MIB_PER_UNIT: Final = 1024


async def announce_cards(api: ApiClient, node: str, cards: Sequence[Mapping[str, Any]]) -> None:
    """Write on the Node what a device plugin announces for these cards; for clusters without one."""
    units = sum(card["memory"]["total_mib"] // _MIB_PER_UNIT for card in cards)
    amounts = {"aliyun.com/gpu-mem": str(units), "aliyun.com/gpu-count": str(len(cards))}
    status = {"status": {"capacity": amounts, "allocatable": amounts}}
    await api.patch(NODES, node, status, subresource="status")


async def delete_node(api: ApiClient, node: str) -> None:
    """Delete the Node object and, right after it, the pods that were on it; a kubelet that starts registers again.

    A real control plane removes these pods itself, after 40 seconds, if no Node has come back by then. One that does come back
    has another range of pod addresses, and what still runs there is cut off from the network.
    """
    await api.delete(NODES, node)
    for pod in await api.list(PODS, field_selector=f"spec.nodeName={node}"):
        try:
            await api.delete(PODS, pod["metadata"]["name"], pod["metadata"]["namespace"], grace_seconds=0)
        except ApiError as error:
            if error.code != 404:
                raise
