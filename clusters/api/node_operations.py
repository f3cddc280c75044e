"""An operator's actions on a node through the API, the same on every kind of cluster: cordon, drain, announce, delete its Node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from clusters.api.api_client import MERGE_PATCH, ApiClient, ApiError, Object
from clusters.api.program_pod import STANDS_FOR
from clusters.api.resources import NODES, PODS
from clusters.api.waiting import DEFAULT_SECONDS, eventually

# A static pod's picture in the API; the kubelet has the pod from elsewhere.
_MIRROR = "kubernetes.io/config.mirror"
# One GiB, which is a plugin's unit unless a flag names another.
_MIB_PER_UNIT: Final = 1024


async def cordon(api: ApiClient, node: str, *, on: bool = True) -> None:
    """No new pods for the node; ``on`` False: again."""
    await api.patch(NODES, node, {"spec": {"unschedulable": on or None}}, content_type=MERGE_PATCH)


async def drain(api: ApiClient, node: str, *, seconds: float = DEFAULT_SECONDS) -> list[str]:
    """Cordon the node and evict its pods, but those of DaemonSets and static ones; ``namespace/name`` of those that went.

    A pod that a disruption budget protects is asked for again until it may go. Raises NotReachedError after ``seconds``.
    """
    await cordon(api, node)
    pods = await api.list(PODS, field_selector=f"spec.nodeName={node}")
    evicted = [pod for pod in pods if is_evictable(pod)]
    for pod in evicted:
        await eventually(partial(_evict, api, pod), bool, f"{_name(pod)} may go", seconds=seconds)
    for pod in evicted:
        await eventually(partial(_is_gone, api, pod), bool, f"{_name(pod)} is gone", seconds=seconds)
    return [_name(pod) for pod in evicted]


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


def is_evictable(pod: Object) -> bool:
    """Would a drain take it?"""
    metadata = pod["metadata"]
    is_static = _MIRROR in (metadata.get("annotations") or {})
    is_daemon = STANDS_FOR in (metadata.get("labels") or {}) or any(
        owner["kind"] == "DaemonSet" for owner in metadata.get("ownerReferences") or []
    )
    return not is_static and not is_daemon


async def _evict(api: ApiClient, pod: Object) -> bool:
    """Ask for it; False if a disruption budget forbids it now."""
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace}}
    try:
        await api.request("POST", PODS.path(namespace, name, "eviction"), body=eviction)
    except ApiError as error:
        if error.code not in (404, 429):
            raise
        return error.code == 404
    return True


async def _is_gone(api: ApiClient, pod: Object) -> bool:
    """Gone, or another has its name."""
    try:
        found = await api.get(PODS, pod["metadata"]["name"], pod["metadata"]["namespace"])
    except ApiError as error:
        if error.code != 404:
            raise
        return True
    return bool(found["metadata"]["uid"] != pod["metadata"]["uid"])


def _name(pod: Object) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
