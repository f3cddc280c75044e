"""The objects of every cluster from its start: namespaces, the roles that the real server makes, classes of priority."""

from __future__ import annotations

from typing import Final

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

FIRST_NAMESPACES: Final = ("default", "kube-node-lease", "kube-public", "kube-system")
_RBAC: Final = "rbac.authorization.k8s.io"
_MARKS: Final = {
    "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
    "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
}
_READ: Final = ("get", "list", "watch")
_PUBLIC: Final = ("/healthz", "/livez", "/readyz", "/version", "/version/")
_DISCOVERY: Final = ("/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/openapi", "/openapi/*", *_PUBLIC[2:])


def _rule(verbs: tuple[str, ...], groups: tuple[str, ...], *resources: str, names: tuple[str, ...] = ()) -> Object:
    rule: Object = {"verbs": list(verbs), "apiGroups": list(groups), "resources": list(resources)}
    return rule | ({"resourceNames": list(names)} if names else {})


def _paths(verbs: tuple[str, ...], *paths: str) -> Object:
    return {"verbs": list(verbs), "nonResourceURLs": list(paths)}


_SCHEDULER: Final = (
    _rule(("create", "patch", "update"), ("",), "events"),
    _rule(("create",), ("coordination.k8s.io",), "leases"),
    _rule(("get", "list", "update", "watch"), ("coordination.k8s.io",), "leases", names=("kube-scheduler",)),
    _rule(_READ, ("",), "nodes"),
    _rule(("delete", *_READ), ("",), "pods"),
    _rule(("create",), ("",), "bindings", "pods/binding"),
    _rule(("patch", "update"), ("",), "pods/status"),
    _rule(_READ, ("apps", "extensions"), "replicasets"),
    _rule(_READ, ("apps",), "statefulsets"),
    _rule(_READ, ("",), "namespaces"),
)
_NODE: Final = (
    _rule(("create", *_READ), ("",), "nodes"),
    _rule(("patch", "update"), ("",), "nodes/status"),
    _rule(("patch", "update"), ("",), "nodes"),
    _rule(("create", "patch", "update"), ("",), "events"),
    _rule(_READ, ("",), "pods"),
    _rule(("create", "delete"), ("",), "pods"),
    _rule(("patch", "update"), ("",), "pods/status"),
    _rule(("create",), ("",), "pods/eviction"),
    _rule(_READ, ("",), "configmaps", "secrets"),
    _rule(("create", "delete", "get", "patch", "update"), ("coordination.k8s.io",), "leases"),
    _rule(("create",), ("",), "serviceaccounts/token"),
    _rule(("get",), ("",), "serviceaccounts"),
)
_ROLES: Final[dict[str, tuple[Object, ...]]] = {
    "cluster-admin": (_rule(("*",), ("*",), "*"), _paths(("*",), "*")),
    "system:basic-user": (
        _rule(("create",), ("authorization.k8s.io",), "selfsubjectaccessreviews"),
        _rule(("create",), ("authentication.k8s.io",), "selfsubjectreviews"),
    ),
    "system:discovery": (_paths(("get",), *_DISCOVERY),),
    "system:public-info-viewer": (_paths(("get",), *_PUBLIC),),
    "system:kube-scheduler": _SCHEDULER,
    "system:node": _NODE,
}
# Role → the kind and name of its holder.
_HOLDERS: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "cluster-admin": (("Group", "system:masters"),),
    "system:basic-user": (("Group", "system:authenticated"),),
    "system:discovery": (("Group", "system:authenticated"),),
    "system:public-info-viewer": (("Group", "system:authenticated"), ("Group", "system:unauthenticated")),
    "system:kube-scheduler": (("User", "system:kube-scheduler"),),
    # No subject: nodes have it through an authorizer of their own.
    "system:node": (),
}
_PRIORITIES: Final = (
    ("system-node-critical", 2_000_001_000, "For pods that a node cannot do without."),
    ("system-cluster-critical", 2_000_000_000, "For pods that the cluster cannot do without; any node will do."),
)


def bootstrap(store: Store, writes: Writes) -> None:
    """Create what is not there yet."""
    for resource, item in _objects():
        namespace, name = item["metadata"].get("namespace", ""), item["metadata"]["name"]
        if store.get(resource, namespace, name) is None:
            writes.create(resource, namespace, item)


def _objects() -> list[tuple[Resource, Object]]:
    found: list[tuple[Resource, Object]] = [(NAMESPACES, {"metadata": {"name": name}}) for name in FIRST_NAMESPACES]
    # A controller makes them everywhere else; here pods can come from the first moment on.
    accounts = [{"metadata": {"name": DEFAULT_ACCOUNT, "namespace": name}} for name in FIRST_NAMESPACES]
    found += [(SERVICE_ACCOUNTS, account) for account in accounts]
    for name, value, description in _PRIORITIES:
        found.append((PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value, "description": description}))
    found += [(CLUSTER_ROLES, {"metadata": _metadata(name), "rules": list(rules)}) for name, rules in _ROLES.items()]
    return found + [(CLUSTER_ROLE_BINDINGS, _binding(name, holders)) for name, holders in _HOLDERS.items()]


def _metadata(name: str) -> Object:
    return {"name": name, **{key: dict(value) for key, value in _MARKS.items()}}


def _binding(role: str, holders: tuple[tuple[str, str], ...]) -> Object:
    subjects = [{"kind": kind, "apiGroup": _RBAC, "name": name} for kind, name in holders]
    reference = {"apiGroup": _RBAC, "kind": CLUSTER_ROLES.kind, "name": role}
    return {"metadata": _metadata(role), **({"subjects": subjects} if subjects else {}), "roleRef": reference}
