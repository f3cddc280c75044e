"""Keeps the rights of the programs of a cluster if they run beside it, and not in its pods.

Those programs act as the ServiceAccounts of ``clusters/deploy``. ``kubectl delete -k clusters/deploy/base`` ends the programs of a
real cluster, but of this one it would only take the rights away, for good. So the deletion is refused, with the reason.
"""

from __future__ import annotations

from typing import Any, Final

from clusters.api import admission_policies
from clusters.api.api_client import ApiClient
from clusters.api.resources import VALIDATING_ADMISSION_POLICIES, VALIDATING_ADMISSION_POLICY_BINDINGS

_NAME: Final = "simulated-programs"
_RBAC: Final = "rbac.authorization.k8s.io"
_MESSAGE: Final = (
    "the programs of this cluster run beside it and need this; "
    "Ctrl-C in the terminal of the cluster ends them with everything"
)


def manifests() -> tuple[dict[str, Any], ...]:
    """A policy that refuses to delete accounts, roles and bindings with names that begin with ``gpushare-``, and its binding."""
    rules = (("", ["serviceaccounts"]), (_RBAC, ["roles", "clusterroles", "rolebindings", "clusterrolebindings"]))
    return (
        {
            "apiVersion": VALIDATING_ADMISSION_POLICIES.api_version,
            "kind": VALIDATING_ADMISSION_POLICIES.kind,
            "metadata": {"name": _NAME},
            "spec": {
                "matchConstraints": {
                    "resourceRules": [
                        {"apiGroups": [group], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": resources}
                        for group, resources in rules
                    ]
                },
                "matchConditions": [
                    {"name": "of-our-programs", "expression": "oldObject.metadata.name.startsWith('gpushare-')"}
                ],
                "validations": [{"expression": "false", "message": _MESSAGE}],
            },
        },
        {
            "apiVersion": VALIDATING_ADMISSION_POLICY_BINDINGS.api_version,
            "kind": VALIDATING_ADMISSION_POLICY_BINDINGS.kind,
            "metadata": {"name": _NAME},
            "spec": {"policyName": _NAME, "validationActions": ["Deny"]},
        },
    )


async def keep_programs(api: ApiClient) -> None:
    """Install the policy, if the API server has the kind, and wait until it acts. Raises ApiError."""
    await admission_policies.install(api, manifests(), {})
