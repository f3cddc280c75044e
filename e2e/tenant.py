"""Accounts with rights, as tenants and as files of rights have them, and what a new namespace takes a moment for."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from clusters.api.api_client import ApiClient, ApiError, Object
from clusters.api.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    NAMESPACES,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
)
from clusters.api.waiting import eventually
from clusters.provider import Cluster

AUTHOR: Final = "author"
_RBAC: Final = "rbac.authorization.k8s.io"


@dataclass(frozen=True, slots=True)
class Tenant:
    """A namespace and a client with the rights of its author."""

    namespace: str
    api: ApiClient


async def applied(cluster: Cluster, rights: Path) -> Path:
    """A kubeconfig of the account in a file of rights, of which everything is made that is not there."""
    account = ""
    for manifest in yaml.safe_load_all(rights.read_text()):
        with suppress(ApiError):
            await cluster.api.create(manifest)
        if manifest["kind"] == SERVICE_ACCOUNTS.kind:
            account = f"{manifest['metadata']['namespace']}/{manifest['metadata']['name']}"
    return await cluster.kubeconfig_of(account)


@asynccontextmanager
async def granted(
    api: ApiClient, namespace: str, account: str, rules: list[dict[str, Any]], *, in_all_namespaces: bool = False
) -> AsyncIterator[None]:
    """An account of that namespace, which is there already, with these rights in it or in all; afterwards it is gone."""
    subject = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    role, role_binding = (CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS) if in_all_namespaces else (ROLES, ROLE_BINDINGS)
    fields: dict[Any, dict[str, Any]] = {
        SERVICE_ACCOUNTS: {},
        role: {"rules": rules},
        role_binding: {"roleRef": {"apiGroup": _RBAC, "kind": role.kind, "name": account}, "subjects": [subject]},
    }
    for kind, more in fields.items():
        head = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": account}}
        await api.create({**head, **more}, namespace)
    try:
        yield
    finally:
        for kind in fields:
            await api.delete(kind, account, namespace)


async def admitted(api: ApiClient, pod: Object, namespace: str, *, dry_run: bool = False) -> Object:
    """Create a pod as soon as admission knows its namespace's ServiceAccount and its PriorityClass; the pod."""

    async def attempt() -> Object | None:
        try:
            params = {"dryRun": "All"} if dry_run else None
            return dict(await api.request("POST", PODS.path(namespace), body=pod, params=params))
        except ApiError as error:
            if error.code != 403:
                raise
            return None

    made = await eventually(attempt, bool, f"pod {pod['metadata']['name']} is admitted")
    assert made is not None
    return made


async def remove_namespace(api: ApiClient, name: str) -> None:
    """Delete a namespace if it is there, and wait until it is gone."""
    with suppress(ApiError):
        await api.delete(NAMESPACES, name)
    await eventually(lambda: api.find(NAMESPACES, name), lambda found: found is None, f"namespace {name} is gone")
