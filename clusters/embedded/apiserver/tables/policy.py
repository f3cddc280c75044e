"""The columns of what limits, ranks or allows: budgets, quotas, priorities, bindings of roles. Pure."""

from __future__ import annotations

from typing import Any, Final

from clusters.embedded.apiserver.api_objects import Object
from clusters.embedded.apiserver.tables.columns import (
    AGE,
    NAME,
    WIDE,
    Column,
    at,
    list_at,
    number,
    number_at,
    text,
    text_at,
)


def _given(value: Any) -> str:
    return "N/A" if value is None else str(value)


POD_DISRUPTION_BUDGETS: Final = (
    NAME,
    text("Min Available", "pods that must stay", lambda item: _given(at(item, "spec", "minAvailable"))),
    text("Max Unavailable", "pods that may be away", lambda item: _given(at(item, "spec", "maxUnavailable"))),
    number("Allowed Disruptions", "pods that may go now", lambda item: number_at(item, "status", "disruptionsAllowed")),
    AGE,
)


def _quota(item: Object, *, limits: bool) -> str:
    hard, used = at(item, "status", "hard") or {}, at(item, "status", "used") or {}
    return ", ".join(
        f"{name}: {used.get(name, '0')}/{hard[name]}" for name in sorted(hard) if name.startswith("limits.") == limits
    )


RESOURCE_QUOTAS: Final = (
    NAME,
    text("Request", "what is used, of what may be", lambda item: _quota(item, limits=False)),
    text("Limit", "the same for limits", lambda item: _quota(item, limits=True)),
    AGE,
)
PRIORITY_CLASSES: Final = (
    NAME,
    number("Value", "its rank", lambda item: number_at(item, "value")),
    Column(
        "Global-Default",
        "whether pods without a class have it",
        lambda item, _: bool(at(item, "globalDefault")),
        type="boolean",
    ),
    AGE,
    text("PreemptionPolicy", "whether others make room", lambda item: text_at(item, "preemptionPolicy")),
)


def _role(item: Object) -> str:
    return f"{text_at(item, 'roleRef', 'kind')}/{text_at(item, 'roleRef', 'name')}"


def _subjects(item: Object, kind: str) -> str:
    names = [
        f"{one.get('namespace', '')}/{one.get('name', '')}" if kind == "ServiceAccount" else str(one.get("name", ""))
        for one in list_at(item, "subjects")
        if one.get("kind") == kind
    ]
    return ", ".join(names)


ROLE_BINDINGS: Final = (
    NAME,
    text("Role", "what is allowed", _role),
    AGE,
    text("Users", "to which users", lambda item: _subjects(item, "User"), WIDE),
    text("Groups", "to which groups", lambda item: _subjects(item, "Group"), WIDE),
    text("ServiceAccounts", "to which programs", lambda item: _subjects(item, "ServiceAccount"), WIDE),
)
