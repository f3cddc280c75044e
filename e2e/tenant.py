"""A tenant: an account with rights in one namespace."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from clusters.api.api_client import ApiClient
from clusters.api.resources import ROLE_BINDINGS, ROLES, SERVICE_ACCOUNTS

AUTHOR: Final = "author"
_RBAC: Final = "rbac.authorization.k8s.io"


@dataclass(frozen=True, slots=True)
class Tenant:
    """A namespace and a client with the rights of its author."""

    namespace: str
    api: ApiClient


@asynccontextmanager
async def granted(api: ApiClient, namespace: str, account: str, rules: list[dict[str, Any]]) -> AsyncIterator[None]:
    """An account with these rights in that namespace, which is there already; afterwards it is gone."""
    subject = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    fields: dict[Any, dict[str, Any]] = {
        SERVICE_ACCOUNTS: {},
        ROLES: {"rules": rules},
        ROLE_BINDINGS: {"roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": account}, "subjects": [subject]},
    }
    for kind, more in fields.items():
        head = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": account}}
        await api.create({**head, **more}, namespace)
    try:
        yield
    finally:
        for kind in fields:
            await api.delete(kind, account, namespace)
