"""The door of the API server: the user of a request, its verb on a resource or on a path, and the user's rights.

Rights come from roles and their bindings, as stored objects (RBAC), and nodes have some of their own. The first yes counts.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from urllib.parse import unquote

from cryptography import x509
from cryptography.x509.oid import NameOID

from clusters.api.resources import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES, Resource
from clusters.embedded.apiserver.api_objects import Object, metadata_of
from clusters.embedded.apiserver.api_routes import NAMESPACE_SUBRESOURCES
from clusters.embedded.apiserver.refusals import RefusalError, not_imitated
from clusters.embedded.apiserver.store import Store

AUTHENTICATED: Final = "system:authenticated"
UNAUTHENTICATED: Final = "system:unauthenticated"
MASTERS: Final = "system:masters"
NODES_GROUP: Final = "system:nodes"
_CREDENTIAL: Final = "authentication.kubernetes.io/credential-id"
_ACCOUNT: Final = "system:serviceaccount:"


@dataclass(frozen=True, slots=True)
class User:
    """The user, as the authorizer sees it."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


ANONYMOUS: Final = User("system:anonymous", (UNAUTHENTICATED,))


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """The names in a certificate that the handshake has traced to our authority."""

    user: User | None
    """None for a certificate without a name."""
    not_before: datetime
    not_after: datetime

    @classmethod
    def parse(cls, der: bytes) -> ClientCertificate:
        """Read it: the common name is the user, the organizations are the groups."""
        certificate = x509.load_der_x509_certificate(der)
        with warnings.catch_warnings(action="ignore", category=UserWarning):
            # The name of a node may be longer than the 64 characters of X.509.
            names = [str(each.value) for each in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
        groups = [str(each.value) for each in certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
        extra = {_CREDENTIAL: (f"X509SHA256={hashlib.sha256(der).hexdigest()}",)}
        user = User(names[0], (*groups, AUTHENTICATED), extra=extra) if names else None
        return cls(user, certificate.not_valid_before_utc, certificate.not_valid_after_utc)


class Authenticator:
    """Finds the user of a request; ``now`` is the cluster's time of day in UTC, ``user_of`` finds the user of a token."""

    def __init__(
        self,
        user_of: Callable[[str], User | None],
        now: Callable[[], datetime],
        without_credentials: User,
    ) -> None:
        """``without_credentials``: the user of a request without a certificate and a token."""
        self._without_credentials = without_credentials
        self._user_of = user_of
        self._now = now

    def user_of(self, headers: Mapping[str, str], certificate: ClientCertificate | None) -> User:
        """The user. Raises RefusalError (401, 501)."""
        if any(name.startswith("impersonate-") for name in headers):
            raise not_imitated("impersonation")
        token = _bearer(headers.get("authorization", ""))
        wrong = bool(token)
        if certificate is not None and certificate.user is not None:
            if certificate.not_before <= self._now() <= certificate.not_after:
                return certificate.user
            wrong = True
        found = self._user_of(token) if token else None
        if found is None and wrong:
            raise RefusalError(401, "Unauthorized", "Unauthorized")
        return found or self._without_credentials


def account_user(namespace: str, name: str, uid: str = "", extra: Mapping[str, tuple[str, ...]] | None = None) -> User:
    """The user that a ServiceAccount is."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED)
    return User(f"{_ACCOUNT}{namespace}:{name}", groups, uid, extra or {})


def credential(text: str) -> dict[str, tuple[str, ...]]:
    """The extra that holds the id of the user's credential."""
    return {_CREDENTIAL: (text,)}


def _bearer(header: str) -> str:
    kind, _, token = header.strip().partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""


_VERBS: Final = {"POST": "create", "GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_ONE_OBJECT: Final = "metadata.name="


@dataclass(frozen=True, slots=True)
class Attributes:
    """The request's verb and object; ``path`` if it is about no resource, else the rest. Empty namespace: the whole cluster."""

    verb: str
    path: str = ""
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""

    @property
    def is_resource(self) -> bool:
        """Whether it is about a resource."""
        return not self.path

    @property
    def full_resource(self) -> str:
        """``pods``, or ``pods/log``."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


def is_on(params: Mapping[str, str], flag: str) -> bool:
    """Whether a flag of a query is on: it is there, and does not say no."""
    return flag in params and params[flag].lower() not in ("0", "false")


def attributes_of(method: str, path: str, params: Mapping[str, str]) -> Attributes:
    """The attributes of a request with this path as it was sent (percent signs not resolved)."""
    parts = [unquote(part) for part in path.strip("/").split("/")]
    if parts[0] == "api" and len(parts) >= 3:
        return _of_resource(method, "", parts[2:], params)
    if parts[0] == "apis" and len(parts) >= 4:
        return _of_resource(method, parts[1], parts[3:], params)
    return Attributes(method.lower(), path=unquote(path) or "/")


def _of_resource(method: str, group: str, parts: list[str], params: Mapping[str, str]) -> Attributes:
    namespace = ""
    if parts[0] == "namespaces" and len(parts) >= 2:
        namespace = parts[1]
        if len(parts) >= 3 and parts[2] not in NAMESPACE_SUBRESOURCES:
            parts = parts[2:]
    resource, name, subresource = (*parts, "", "", "")[:3]
    verb = _VERBS.get(method, "")
    if not name and verb in ("get", "delete"):
        name = _selected_name(params)
        verb = "deletecollection" if verb == "delete" else "watch" if is_on(params, "watch") else "list"
    return Attributes(verb, group=group, resource=resource, subresource=subresource, namespace=namespace, name=name)


def _selected_name(params: Mapping[str, str]) -> str:
    """A client that lists one object by its name needs that object's rights."""
    for part in params.get("fieldSelector", "").split(","):
        if part.startswith(_ONE_OBJECT):
            return part.removeprefix(_ONE_OBJECT).removeprefix("=")
    return ""


_NODE_PREFIX: Final = "system:node:"
_NODE_ROLE: Final = "system:node"


class Authorizer:
    """Decides by the roles and bindings that are in the store at that moment."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._granted: dict[str, list[_Grant]] = {}
        for resource in (CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS, ROLES, ROLE_BINDINGS):
            store.wake_on_change(resource, self._granted.clear)

    def allows(self, user: User, attributes: Attributes) -> bool:
        """May this user do that?"""
        if MASTERS in user.groups:
            return True
        is_node = NODES_GROUP in user.groups and user.name.startswith(_NODE_PREFIX)
        if is_node and any(allows(rule, attributes) for rule in self._role(CLUSTER_ROLES, "", _NODE_ROLE)):
            return True
        return any(allows(rule, attributes) for rule in self.rules(user, attributes.namespace))

    def rules(self, user: User, namespace: str) -> Iterator[Object]:
        """Every rule that holds for a user in a namespace."""
        for grant in self._grants(namespace):
            if any(_is_subject(each, user, grant.namespace) for each in grant.subjects):
                yield from grant.rules

    def _grants(self, namespace: str) -> list[_Grant]:
        if namespace not in self._granted:
            found = [each.item for each in self._store.all(CLUSTER_ROLE_BINDINGS)]
            found += [each.item for each in self._store.all(ROLE_BINDINGS, namespace)] if namespace else []
            self._granted[namespace] = [self._grant(binding) for binding in found]
        return self._granted[namespace]

    def _grant(self, binding: Object) -> _Grant:
        reference, namespace = binding.get("roleRef") or {}, metadata_of(binding).get("namespace", "")
        kind, role = reference.get("kind", ""), reference.get("name", "")
        rules = self._role(ROLES, namespace, role) if kind == ROLES.kind else self._role(CLUSTER_ROLES, "", role)
        return _Grant(binding.get("subjects") or [], rules, namespace)

    def _role(self, resource: Resource, namespace: str, name: str) -> list[Object]:
        """The rules of a role; one that is not there gives no right."""
        stored = self._store.get(resource, namespace, name)
        return [] if stored is None else stored.item.get("rules") or []


@dataclass(frozen=True, slots=True)
class _Grant:
    subjects: list[Object]
    rules: list[Object]
    namespace: str


def forbidden(user: User, attributes: Attributes) -> RefusalError:
    """403, in the real server's text."""
    if not attributes.is_resource:
        text = f'forbidden: User "{user.name}" cannot {attributes.verb} path "{attributes.path}"'
        return RefusalError(403, "Forbidden", text, {})
    plural = f"{attributes.resource}.{attributes.group}" if attributes.group else attributes.resource
    which = f'{plural} "{attributes.name}"' if attributes.name else plural
    scope = f'in the namespace "{attributes.namespace}"' if attributes.namespace else "at the cluster scope"
    what = f'cannot {attributes.verb} resource "{attributes.full_resource}" in API group "{attributes.group}" {scope}'
    details: Object = {"name": attributes.name} if attributes.name else {}
    details |= {"group": attributes.group} if attributes.group else {}
    details["kind"] = attributes.resource
    return RefusalError(403, "Forbidden", f'{which} is forbidden: User "{user.name}" {what}', details)


def allows(rule: Object, attributes: Attributes) -> bool:
    """Whether one rule of a role covers these attributes."""
    verbs = rule.get("verbs") or ()
    if attributes.verb not in verbs and "*" not in verbs:
        return False
    if not attributes.is_resource:
        return any(_covers_path(pattern, attributes.path) for pattern in rule.get("nonResourceURLs") or ())
    groups, names = rule.get("apiGroups") or (), rule.get("resourceNames") or ()
    if attributes.group not in groups and "*" not in groups:
        return False
    return _covers_resource(rule.get("resources") or (), attributes) and (not names or attributes.name in names)


def _covers_resource(resources: Any, attributes: Attributes) -> bool:
    any_parent = f"*/{attributes.subresource}" if attributes.subresource else "*"
    return "*" in resources or attributes.full_resource in resources or any_parent in resources


def _covers_path(pattern: str, path: str) -> bool:
    return pattern in ("*", path) or (pattern.endswith("*") and path.startswith(pattern.rstrip("*")))


def _is_subject(subject: Object, user: User, namespace: str) -> bool:
    kind, name = subject.get("kind"), str(subject.get("name", ""))
    if kind == "User":
        return user.name == name
    if kind == "Group":
        return name in user.groups
    return kind == "ServiceAccount" and user.name == account_user(subject.get("namespace") or namespace, name).name
