"""Admission policies of a target: installed where the API server knows the kind, and waited for until they act."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from clusters.api_client import ApiClient, ApiError
from clusters.waiting import eventually

_LOG = logging.getLogger(__name__)

_NAMESPACE: Final = "default"
# No program with this image is ever started: the pod is created as a dry run.
_IMAGE: Final = "registry.k8s.io/pause:3.10"


async def install(api: ApiClient, manifests: Sequence[dict[str, Any]], probe: Mapping[str, str]) -> bool:
    """Create the policies, and wait until a pod that ``asks`` for one resource ``gets`` the other (``probe``).

    False where the API server is too old for them; there manifests must say what the policies would add. Raises ApiError.
    """
    for manifest in manifests:
        try:
            await api.create(manifest)
        except ApiError as error:
            if error.code == 404:
                _LOG.warning("no %s in this API server: pods must say it themselves", manifest["kind"])
                return False
            # It was in the state that the cluster began with.
            if error.reason != "AlreadyExists":
                raise
    if probe:
        await eventually(
            lambda: _limits_after(api, probe["asks"]),
            lambda limits: probe["gets"] in limits,
            f"a pod that asks for {probe['asks']} gets {probe['gets']}",
        )
    return True


async def _limits_after(api: ApiClient, resource: str) -> Mapping[str, str]:
    """The limits that a pod with a limit of one of the resource would have, were it created."""
    limits = {resource: "1"}
    container = {"name": "probe", "image": _IMAGE, "resources": {"limits": limits}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "policy-probe"}, "spec": {"containers": [container]}}
    try:
        answer = await api.request("POST", f"/api/v1/namespaces/{_NAMESPACE}/pods", body=pod, params={"dryRun": "All"})
    except ApiError as error:
        # The namespace, or its ServiceAccount, is made by a controller.
        if error.code not in (403, 404):
            raise
        return {}
    found: Mapping[str, str] = answer["spec"]["containers"][0]["resources"]["limits"]
    return found
