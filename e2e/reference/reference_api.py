"""The API server as the reference implementations ask it: the harness's client, and the writes of theirs."""

from __future__ import annotations

from collections.abc import Mapping

from clusters.api.api_client import MERGE_PATCH, ApiClient
from clusters.api.resources import PODS
from e2e.reference.reference_pods import Object


class Api(ApiClient):
    """Requests to one API server."""

    async def pods_of(self, node: str) -> list[Object]:
        """The pods that are bound to a node."""
        return await self.list(PODS, field_selector=f"spec.nodeName={node}")

    async def annotate(self, pod: Object, annotations: Mapping[str, str], content_type: str = MERGE_PATCH) -> None:
        """Write annotations on that very pod."""
        where, written = pod["metadata"], {"uid": pod["metadata"]["uid"], "annotations": dict(annotations)}
        await self.patch(PODS, where["name"], {"metadata": written}, where["namespace"], content_type=content_type)
