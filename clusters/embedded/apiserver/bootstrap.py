"""The objects of every cluster from its start (``bootstrap.yaml``)."""

from __future__ import annotations

import copy
import functools
from pathlib import Path
from typing import Any, Final

import yaml

from clusters.api.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    NAMESPACES,
    PRIORITY_CLASSES,
    SERVICE_ACCOUNTS,
    Resource,
)
from clusters.embedded.apiserver.api_admission import DEFAULT_ACCOUNT
from clusters.embedded.apiserver.api_objects import Object
from clusters.embedded.apiserver.store import Store
from clusters.embedded.apiserver.writes import Writes

_MARKS: Final = {
    "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
    "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
}


def bootstrap(store: Store, writes: Writes) -> None:
    """Create what is not there yet."""
    for resource, item in copy.deepcopy(_objects()):
        namespace, name = item["metadata"].get("namespace", ""), item["metadata"]["name"]
        if store.get(resource, namespace, name) is None:
            writes.create(resource, namespace, item)


@functools.cache
def _objects() -> list[tuple[Resource, Object]]:
    whole: dict[str, Any] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())
    found: list[tuple[Resource, Object]] = [(NAMESPACES, {"metadata": {"name": one}}) for one in whole["namespaces"]]
    # A controller makes them everywhere else; here pods can come from the first moment on.
    accounts = [{"metadata": {"name": DEFAULT_ACCOUNT, "namespace": one}} for one in whole["namespaces"]]
    found += [(SERVICE_ACCOUNTS, account) for account in accounts]
    found += [(PRIORITY_CLASSES, one) for one in whole["priorities"]]
    for role in whole["roles"]:
        head = {"metadata": {"name": role["name"], **_MARKS}}
        found.append((CLUSTER_ROLES, {**head, "rules": role["rules"]}))
        reference = {"kind": CLUSTER_ROLES.kind, "name": role["name"]}
        found.append((CLUSTER_ROLE_BINDINGS, {**head, "subjects": role["subjects"], "roleRef": reference}))
    return found
