"""The Lease of a node in kube-node-lease: the sign of life that the node lifecycle controller looks at.

Rules: Kubernetes pkg/kubelet and component-helpers' lease controller. Without a Node there is no Lease; one that was
deleted is made again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from clusters.api_client import MERGE_PATCH, ApiClient, ApiError
from clusters.connection import TransportError
from clusters.kubelet.timings import Timings
from clusters.resources import LEASES, NODES

_LOG = logging.getLogger(__name__)

NAMESPACE: Final = "kube-node-lease"
# How long the node counts as alive without a renewal, in seconds.
_DURATION_SECONDS: Final = 40


class NodeLease:
    """Renews the Lease of one node."""

    def __init__(self, client: ApiClient, node: str, timings: Timings, clock: Callable[[], float]) -> None:
        self._client = client
        self._node = node
        self._timings = timings
        self._clock = clock

    async def run(self) -> None:
        """Renew it now and then; ends by cancellation."""
        while True:
            try:
                await self.renew()
            except (ApiError, TransportError) as error:
                _LOG.warning("lease not renewed, trying again node=%s error=%r", self._node, error)
            await asyncio.sleep(self._timings.heartbeat)

    async def renew(self) -> None:
        """Say that the node is alive. Raises ApiError and TransportError."""
        try:
            await self._client.patch(LEASES, self._node, {"spec": self._spec()}, NAMESPACE, content_type=MERGE_PATCH)
        except ApiError as error:
            if error.code != 404:
                raise
            await self._create()

    async def _create(self) -> None:
        node = await self._client.get(NODES, self._node)
        owner = {"apiVersion": "v1", "kind": NODES.kind, "name": self._node, "uid": node["metadata"]["uid"]}
        metadata = {"name": self._node, "namespace": NAMESPACE, "ownerReferences": [owner]}
        lease = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata, "spec": self._spec()}
        await self._client.create(lease)

    def _spec(self) -> dict[str, Any]:
        now = datetime.fromtimestamp(self._clock(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return {"holderIdentity": self._node, "leaseDurationSeconds": _DURATION_SECONDS, "renewTime": now}
