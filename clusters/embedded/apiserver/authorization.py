"""The rights of users: roles and their bindings, as stored objects (RBAC), and the rights of nodes. The first yes counts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from clusters.embedded.apiserver.api_objects import Object, metadata_of
from clusters.embedded.apiserver.attributes import Attributes
from clusters.embedded.apiserver.authentication import MASTERS, NODES_GROUP, User, account_user
from clusters.embedded.apiserver.refusals import RefusalError
from clusters.embedded.apiserver.store import Store
from clusters.resources import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES

_NODE_PREFIX: Final = "system:node:"
_NODE_ROLE: Final = "system:node"


@dataclass(frozen=True, slots=True)
class Decision:
    """Yes or no, and the reason, as far as the server shows it."""

    allowed: bool
    reason: str = ""


class Authorizer:
    """Decides by the roles and bindings that are in the store at that moment."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._granted: dict[str, list[_Grant]] = {}
        for resource in (CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS, ROLES, ROLE_BINDINGS):
            store.wake_on_change(resource, self._granted.clear)

    def decide(self, user: User, wish: Attributes) -> Decision:
        """May this user do that?"""
        if MASTERS in user.groups:
            return Decision(True)
        if self._is_node(user) and any(allows(rule, wish) for rule in self._role(CLUSTER_ROLES, "", _NODE_ROLE) or ()):
            return Decision(True)
        missing: list[str] = []
        for grant in self._grants(wish.namespace):
            subject = next((each for each in grant.subjects if _is_subject(each, user, grant.namespace)), None)
            if subject is None:
                continue
            if grant.rules is None:
                missing.append(f"{grant.kind.lower()}.rbac.authorization.k8s.io {_quoted(grant.role)} not found")
            elif any(allows(rule, wish) for rule in grant.rules):
                return Decision(True, f"RBAC: allowed by {grant.described} to {_described(subject, grant.namespace)}")
        return Decision(False, _errors(missing))

    def rules(self, user: User, namespace: str) -> Iterator[Object]:
        """Every rule that holds for a user in a namespace."""
        for grant in self._grants(namespace):
            if any(_is_subject(each, user, grant.namespace) for each in grant.subjects):
                yield from grant.rules or ()

    def _is_node(self, user: User) -> bool:
        return NODES_GROUP in user.groups and user.name.startswith(_NODE_PREFIX)

    def _grants(self, namespace: str) -> list[_Grant]:
        if namespace not in self._granted:
            found = [each.item for each in self._store.all(CLUSTER_ROLE_BINDINGS)]
            found += [each.item for each in self._store.all(ROLE_BINDINGS, namespace)] if namespace else []
            self._granted[namespace] = [self._grant(binding) for binding in found]
        return self._granted[namespace]

    def _grant(self, binding: Object) -> _Grant:
        reference, metadata = binding.get("roleRef") or {}, metadata_of(binding)
        namespace, kind, role = metadata.get("namespace", ""), reference.get("kind", ""), reference.get("name", "")
        rules = self._role(ROLES, namespace, role) if kind == ROLES.kind else self._role(CLUSTER_ROLES, "", role)
        whose = f"{metadata['name']}/{namespace}" if namespace else metadata["name"]
        word = "RoleBinding" if namespace else "ClusterRoleBinding"
        described = f"{word} {_quoted(whose)} of {kind} {_quoted(role)}"
        return _Grant(binding.get("subjects") or [], rules, kind, role, namespace, described)

    def _role(self, resource: Any, namespace: str, name: str) -> list[Object] | None:
        stored = self._store.get(resource, namespace, name)
        return None if stored is None else stored.item.get("rules") or []


@dataclass(frozen=True, slots=True)
class _Grant:
    subjects: list[Object]
    rules: list[Object] | None
    """None where the role is not there."""
    kind: str
    role: str
    namespace: str
    described: str


def forbidden(user: User, wish: Attributes, reason: str = "", verb: str = "") -> RefusalError:
    """403, in the real server's text; ``verb`` if it is about another than that of the attributes."""
    end = f": {reason}" if reason else ""
    verb = verb or wish.verb
    if not wish.is_resource:
        text = f'forbidden: User "{user.name}" cannot {verb} path "{wish.path}"{end}'
        return RefusalError(403, "Forbidden", text, {})
    plural = f"{wish.resource}.{wish.group}" if wish.group else wish.resource
    which = f"{plural} {_quoted(wish.name)}" if wish.name else plural
    scope = f'in the namespace "{wish.namespace}"' if wish.namespace else "at the cluster scope"
    what = f'cannot {verb} resource "{wish.full_resource}" in API group "{wish.group}" {scope}'
    details: Object = {"name": wish.name} if wish.name else {}
    details |= {"group": wish.group} if wish.group else {}
    details["kind"] = wish.resource
    return RefusalError(403, "Forbidden", f'{which} is forbidden: User "{user.name}" {what}{end}', details)


def allows(rule: Object, wish: Attributes) -> bool:
    """Whether one rule of a role covers a wish."""
    verbs = rule.get("verbs") or ()
    if wish.verb not in verbs and "*" not in verbs:
        return False
    if not wish.is_resource:
        return any(_covers_path(pattern, wish.path) for pattern in rule.get("nonResourceURLs") or ())
    groups, names = rule.get("apiGroups") or (), rule.get("resourceNames") or ()
    if wish.group not in groups and "*" not in groups:
        return False
    return _covers_resource(rule.get("resources") or (), wish) and (not names or wish.name in names)


def _covers_resource(resources: Any, wish: Attributes) -> bool:
    any_parent = f"*/{wish.subresource}" if wish.subresource else "*"
    return "*" in resources or wish.full_resource in resources or any_parent in resources


def _covers_path(pattern: str, path: str) -> bool:
    return pattern in ("*", path) or (pattern.endswith("*") and path.startswith(pattern.rstrip("*")))


def _is_subject(subject: Object, user: User, namespace: str) -> bool:
    kind, name = subject.get("kind"), str(subject.get("name", ""))
    if kind == "User":
        return user.name == name
    if kind == "Group":
        return name in user.groups
    return kind == "ServiceAccount" and user.name == account_user(subject.get("namespace") or namespace, name).name


def _described(subject: Object, namespace: str) -> str:
    name = subject.get("name", "")
    if subject.get("kind") == "ServiceAccount":
        name = f"{name}/{subject.get('namespace') or namespace}"
    return f"{subject.get('kind')} {_quoted(name)}"


def _errors(texts: list[str]) -> str:
    if not texts:
        return ""
    unique = list(dict.fromkeys(texts))
    return f"RBAC: {unique[0] if len(unique) == 1 else '[' + ', '.join(unique) + ']'}"


def _quoted(text: str) -> str:
    return f'"{text}"'
