"""Defaults and checks of roles, their bindings, and classes of priority. Pure."""

from __future__ import annotations

from typing import Any, Final

from clusters.api.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    PRIORITY_CLASSES,
    ROLE_BINDINGS,
    ROLES,
    Resource,
)
from clusters.embedded.apiserver.api_objects import Object
from clusters.embedded.apiserver.field_rules import required, unsupported, wrong
from clusters.embedded.apiserver.refusals import FieldError

GROUP: Final = "rbac.authorization.k8s.io"
GROUP_VERSION: Final = CLUSTER_ROLES.api_version
_SUBJECTS: Final = ("ServiceAccount", "User", "Group")
_BINDINGS: Final = (CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS)


def set_defaults(resource: Resource, item: Object) -> None:
    """Fill in the defaults. Changes the object."""
    if resource in _BINDINGS:
        for subject in item.get("subjects", []):
            if subject.get("kind") in ("User", "Group"):
                subject.setdefault("apiGroup", GROUP)
        item.setdefault("roleRef", {}).setdefault("apiGroup", GROUP)
    elif resource in (CLUSTER_ROLES, ROLES):
        item.setdefault("rules", None)
    elif resource == PRIORITY_CLASSES:
        item.setdefault("preemptionPolicy", "PreemptLowerPriority")
        item.setdefault("value", 0)


def validate(resource: Resource, item: Object) -> list[FieldError]:
    """The faults in an object of these kinds."""
    if resource in _BINDINGS:
        return _binding(resource, item)
    if resource in (CLUSTER_ROLES, ROLES):
        return [
            error for at, rule in enumerate(item.get("rules") or ()) for error in _rule(resource, rule, f"rules[{at}]")
        ]
    return []


def check_update(resource: Resource, old: Object, new: Object) -> list[FieldError]:
    """The fields that may not change."""
    if resource in _BINDINGS and old.get("roleRef") != new.get("roleRef"):
        return [wrong("roleRef", new.get("roleRef"), "cannot change")]
    return []


def _rule(resource: Resource, rule: Object, path: str) -> list[FieldError]:
    errors = [] if rule.get("verbs") else [required(f"{path}.verbs", "verbs must contain at least one value")]
    urls = rule.get("nonResourceURLs")
    if urls:
        return errors + _urls(resource, rule, urls, path)
    if not rule.get("apiGroups"):
        errors.append(required(f"{path}.apiGroups", "resource rules must supply at least one api group"))
    if not rule.get("resources"):
        errors.append(required(f"{path}.resources", "resource rules must supply at least one resource"))
    return errors


def _urls(resource: Resource, rule: Object, urls: Any, path: str) -> list[FieldError]:
    if resource == ROLES:
        return [wrong(f"{path}.nonResourceURLs", urls, "a role of a namespace cannot name URLs")]
    if any(rule.get(key) for key in ("apiGroups", "resources", "resourceNames")):
        return [wrong(f"{path}.nonResourceURLs", urls, "a rule cannot name both resources and URLs")]
    return []


def _binding(resource: Resource, item: Object) -> list[FieldError]:
    reference = item.get("roleRef", {})
    errors: list[FieldError] = []
    if reference.get("apiGroup") != GROUP:
        errors.append(unsupported("roleRef.apiGroup", reference.get("apiGroup", ""), (GROUP,)))
    kinds = (ROLES.kind, CLUSTER_ROLES.kind) if resource == ROLE_BINDINGS else (CLUSTER_ROLES.kind,)
    if reference.get("kind", "") not in kinds:
        errors.append(unsupported("roleRef.kind", reference.get("kind", ""), kinds))
    if not reference.get("name"):
        errors.append(required("roleRef.name"))
    for at, subject in enumerate(item.get("subjects", [])):
        errors += _subject(resource, subject, f"subjects[{at}]")
    return errors


def _subject(resource: Resource, subject: Object, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if not subject.get("name"):
        errors.append(required(f"{path}.name"))
    if subject.get("kind", "") not in _SUBJECTS:
        errors.append(unsupported(f"{path}.kind", subject.get("kind", ""), _SUBJECTS))
    elif resource == CLUSTER_ROLE_BINDINGS and subject["kind"] == "ServiceAccount" and not subject.get("namespace"):
        errors.append(required(f"{path}.namespace"))
    return errors
