"""Defaults and checks of roles, their bindings, and classes of priority. Pure."""

from __future__ import annotations

from typing import Final

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
    return _binding(resource, item) if resource in _BINDINGS else []


def check_update(resource: Resource, old: Object, new: Object) -> list[FieldError]:
    """The fields that may not change."""
    if resource in _BINDINGS and old.get("roleRef") != new.get("roleRef"):
        return [wrong("roleRef", new.get("roleRef"), "cannot change")]
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
    return errors
