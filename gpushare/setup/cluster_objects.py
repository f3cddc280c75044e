"""A look at the cluster of a kubeconfig, which is never changed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from gpushare.kube import config
from gpushare.kube.api_errors import NotFoundError
from gpushare.kube.client import ApiClient
from gpushare.manifests import Node
from gpushare.setup.core.faults import Fault
from gpushare.setup.core.installed_objects import EXTENDER, NAMESPACE, PLUGIN, cluster_faults


async def look(kubeconfig: str, context: str | None) -> list[Fault]:
    """The faults of the cluster. Raises GpushareError."""
    client = config.connect(kubeconfig, context)
    try:
        return await faults_of(client, await client.list_nodes())
    finally:
        await client.close()


async def faults_of(client: ApiClient, nodes: Sequence[Node]) -> list[Fault]:
    """The faults of the cluster, of which these are the nodes. Raises ApiError."""
    return cluster_faults(
        await _found(client, f"deployments/{EXTENDER}"), await _found(client, f"daemonsets/{PLUGIN}"), nodes
    )


async def _found(client: ApiClient, name: str) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads(await client.request("GET", f"/apis/apps/v1/namespaces/{NAMESPACE}/{name}"))
    except NotFoundError:
        return None
    return found
