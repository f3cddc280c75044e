"""Admission policies of a target: installed if the API server knows the kind; the harness waits until they act."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from clusters.api.api_client import ApiClient, ApiError
from clusters.api.resources import (
    CONFIG_MAPS,
    MUTATING_ADMISSION_POLICIES,
    VALIDATING_ADMISSION_POLICIES,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
    resource_of,
)
from clusters.api.waiting import eventually

_LOG = logging.getLogger(__name__)

_NAMESPACE: Final = "default"
_NAME: Final = "policy-probe"
# A policy that denies one ConfigMap, and its binding.
_LAST: Final[tuple[dict[str, Any], ...]] = (
    {
        "apiVersion": VALIDATING_ADMISSION_POLICIES.api_version,
        "kind": VALIDATING_ADMISSION_POLICIES.kind,
        "metadata": {"name": _NAME},
        "spec": {
            "matchConstraints": {
                "resourceRules": [
                    {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
                ]
            },
            "validations": [{"expression": f"object.metadata.name != '{_NAME}'", "message": "policies act"}],
        },
    },
    {
        "apiVersion": VALIDATING_ADMISSION_POLICY_BINDINGS.api_version,
        "kind": VALIDATING_ADMISSION_POLICY_BINDINGS.kind,
        "metadata": {"name": _NAME},
        "spec": {"policyName": _NAME, "validationActions": ["Deny"]},
    },
)
# No program with this image is ever started: the pod is created as a dry run.
_IMAGE: Final = "registry.k8s.io/pause:3.10"


async def install(api: ApiClient, manifests: Sequence[dict[str, Any]], probe: Mapping[str, str]) -> bool:
    """Create the policies, and wait until they act: a mutating one gives a pod that ``asks`` for one resource what it ``gets``.

    False if the API server is too old for a kind; there manifests must say what such policies would add. Raises ApiError.
    """
    missing = {manifest["kind"] for manifest in manifests if not await _create(api, manifest)}
    for kind in sorted(missing):
        _LOG.warning("this API server has no %s: go without, or take a newer one", kind)
    if any(manifest["kind"] == VALIDATING_ADMISSION_POLICIES.kind for manifest in manifests):
        await _validate(api, missing)
    if probe and MUTATING_ADMISSION_POLICIES.kind not in missing:
        await eventually(
            lambda: _limits_after(api, probe["asks"]),
            lambda limits: probe["gets"] in limits,
            f"a pod that asks for {probe['asks']} gets {probe['gets']}",
        )
    return not missing


async def _create(api: ApiClient, manifest: dict[str, Any]) -> bool:
    """Create one; False if there is no such kind. Raises ApiError."""
    try:
        await api.create(manifest)
    except ApiError as error:
        # A cluster may begin with a state that has them.
        if error.reason != "AlreadyExists" and error.code != 404:
            raise
        return error.code != 404
    return True


async def _validate(api: ApiClient, missing: set[str]) -> None:
    """Wait until validating policies act: the API server reads them in order, so one that is created last acts last."""
    if VALIDATING_ADMISSION_POLICIES.kind in missing:
        return
    for manifest in _LAST:
        await _create(api, manifest)
    await eventually(lambda: _is_denied(api), bool, "validating admission policies act")
    for manifest in reversed(_LAST):
        await api.delete(resource_of(manifest), _NAME)


async def _is_denied(api: ApiClient) -> bool:
    body = {"apiVersion": "v1", "kind": CONFIG_MAPS.kind, "metadata": {"name": _NAME}}
    try:
        await api.request("POST", CONFIG_MAPS.path(_NAMESPACE), body=body, params={"dryRun": "All"})
    except ApiError as error:
        return error.code == 422
    return False


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
