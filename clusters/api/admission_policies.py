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
_RBAC: Final = "rbac.authorization.k8s.io"


def _denial(
    name: str, operation: str, kinds: Sequence[tuple[str, list[str]]], expression: str, message: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A policy that denies the operation on these kinds (group and resources) unless the expression holds, and its binding."""
    rules = [
        {"apiGroups": [group], "apiVersions": ["v1"], "operations": [operation], "resources": resources}
        for group, resources in kinds
    ]
    head = {"apiVersion": VALIDATING_ADMISSION_POLICIES.api_version, "metadata": {"name": name}}
    validations = [{"expression": expression, "message": message}]
    policy = {"matchConstraints": {"resourceRules": rules}, "validations": validations}
    return (
        {**head, "kind": VALIDATING_ADMISSION_POLICIES.kind, "spec": policy},
        {
            **head,
            "kind": VALIDATING_ADMISSION_POLICY_BINDINGS.kind,
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        },
    )


# The names of their ServiceAccounts, and of what is bound to these, begin so.
_PROGRAMS: Final = ("gpushare-device-plugin", "gpushare-inspect", "gpushare-schd-extender")
# A policy that denies one ConfigMap.
_LAST: Final = _denial(_NAME, "CREATE", [("", ["configmaps"])], f"object.metadata.name != '{_NAME}'", "policies act")
# Programs of ours that run beside a cluster act as the ServiceAccounts of ``clusters/deploy``. ``kubectl delete -k
# clusters/deploy/base`` would take only their rights away, for good. So the deletion is refused, with the reason.
_KEPT: Final = _denial(
    "simulated-programs",
    "DELETE",
    [("", ["serviceaccounts"]), (_RBAC, ["roles", "clusterroles", "rolebindings", "clusterrolebindings"])],
    " && ".join(f"!oldObject.metadata.name.startsWith('{name}')" for name in _PROGRAMS),
    "the programs of this cluster run beside it and need this; "
    "Ctrl-C in the terminal of the cluster ends them with everything",
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


async def remove(api: ApiClient, manifests: Sequence[dict[str, Any]], probe: Mapping[str, str]) -> None:
    """Delete what ``install`` created, and wait until a mutating policy acts no longer. Raises ApiError."""
    for manifest in reversed(manifests):
        await api.delete(resource_of(manifest), manifest["metadata"]["name"])
    if probe:
        await eventually(
            lambda: _limits_after(api, probe["asks"]),
            lambda limits: probe["asks"] in limits and probe["gets"] not in limits,
            f"a pod that asks for {probe['asks']} gets no {probe['gets']}",
        )


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


async def keep_programs(api: ApiClient) -> None:
    """Let no client delete the rights of programs that run beside the cluster, and not in its pods. Raises ApiError."""
    await install(api, _KEPT, {})
