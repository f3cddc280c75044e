"""A look at the cluster of a kubeconfig, which is never changed."""

from __future__ import annotations

from typing import Any, NamedTuple

from gpushare.foreign import decode_json
from gpushare.kube import config
from gpushare.kube.api_errors import NotFoundError
from gpushare.kube.client import ApiClient
from gpushare.manifests import Node, Pod
from gpushare.setup.core.faults import Fault
from gpushare.setup.core.installed_objects import (
    EXTENDER,
    NAMESPACE,
    PLUGIN,
    bypasses_extender,
    cluster_faults,
    scheduler_faults,
)


class Survey(NamedTuple):
    """What a migration is decided by. The Deployment and the DaemonSet are None if they are not there."""

    extender: dict[str, Any] | None
    plugin: dict[str, Any] | None
    nodes: list[Node]
    pods: list[Pod]


async def look(kubeconfig: str, context: str | None) -> list[Fault]:
    """The faults of the cluster. Raises GpushareError."""
    async with config.connect(kubeconfig, context) as client:
        bypassing = list[Pod]()
        await client.read_each(
            "/api/v1/pods", Pod, lambda pod: bypassing.append(pod) if bypasses_extender(pod) else None
        )
        return [*cluster_faults(*await objects_of(client), await client.list_nodes()), *scheduler_faults(bypassing)]


async def survey(kubeconfig: str | None, context: str | None) -> Survey:
    """All that decides a migration; without a kubeconfig of the cluster that kubectl would ask. Raises GpushareError."""
    async with config.connect(kubeconfig, context) as client:
        return Survey(*await objects_of(client), await client.list_nodes(), await client.list_pods())


async def objects_of(client: ApiClient) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """The extender's Deployment and the device plugin's DaemonSet, None if they are not there. Raises ApiError."""
    return await _found(client, f"deployments/{EXTENDER}"), await _found(client, f"daemonsets/{PLUGIN}")


async def _found(client: ApiClient, name: str) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = decode_json(await client.request("GET", f"/apis/apps/v1/namespaces/{NAMESPACE}/{name}"))
    except NotFoundError:
        return None
    return found
