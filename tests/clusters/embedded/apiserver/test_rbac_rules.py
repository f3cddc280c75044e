"""Promises of clusters.embedded.apiserver.rbac_rules: roles, bindings and classes of priority as objects."""

from __future__ import annotations

from typing import Any

import pytest

from clusters.api.resources import (
    CLUSTER_ROLE_BINDINGS,
    PRIORITY_CLASSES,
    ROLE_BINDINGS,
    ROLES,
    Resource,
)
from clusters.embedded.apiserver import rbac_rules

ROLE = {"apiGroup": rbac_rules.GROUP, "kind": "ClusterRole", "name": "r"}


def test_absent_fields_get_their_defaults() -> None:
    """Groups of subjects and roles; what a class of priority does."""
    binding = {"subjects": [{"kind": "User", "name": "a"}, {"kind": "ServiceAccount", "name": "b", "namespace": "n"}]}
    rbac_rules.set_defaults(ROLE_BINDINGS, binding)
    assert binding["subjects"][0]["apiGroup"] == rbac_rules.GROUP
    assert "apiGroup" not in binding["subjects"][1]
    found: dict[str, Any] = {}
    rbac_rules.set_defaults(PRIORITY_CLASSES, found)
    assert found == {"preemptionPolicy": "PreemptLowerPriority", "value": 0}


@pytest.mark.parametrize(
    ("resource", "item", "fields"),
    [
        (ROLES, {"rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]}, []),
        (CLUSTER_ROLE_BINDINGS, {"roleRef": ROLE, "subjects": [{"kind": "Group", "name": "g"}]}, []),
        (CLUSTER_ROLE_BINDINGS, {"roleRef": {**ROLE, "kind": "Role"}}, ["roleRef.kind"]),
        (ROLE_BINDINGS, {"roleRef": {**ROLE, "kind": "Role"}}, []),
        (ROLE_BINDINGS, {"roleRef": {**ROLE, "name": ""}}, ["roleRef.name"]),
        (ROLE_BINDINGS, {"roleRef": {**ROLE, "apiGroup": "x"}}, ["roleRef.apiGroup"]),
        (ROLE_BINDINGS, {"roleRef": ROLE, "subjects": [{"kind": "ServiceAccount", "name": "b"}]}, []),
        (PRIORITY_CLASSES, {}, []),
    ],
    ids=range(8),
)
def test_what_is_wrong_is_named(resource: Resource, item: dict[str, Any], fields: list[str]) -> None:
    """Every field."""
    assert [error.field for error in rbac_rules.validate(resource, item)] == fields


def test_a_binding_is_for_one_role() -> None:
    """The role of a binding can never be changed."""
    (error,) = rbac_rules.check_update(ROLE_BINDINGS, {"roleRef": ROLE}, {"roleRef": {**ROLE, "name": "other"}})
    assert error.field == "roleRef"
    assert rbac_rules.check_update(ROLE_BINDINGS, {"roleRef": ROLE}, {"roleRef": ROLE}) == []
