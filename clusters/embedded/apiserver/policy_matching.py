"""Which requests an admission policy is about: its rules and selectors, as data. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from clusters.api.resources import MUTATING_ADMISSION_POLICIES, NAMESPACES, VALIDATING_ADMISSION_POLICIES, Resource
from clusters.embedded.apiserver.api_objects import Object, labels_of
from clusters.embedded.apiserver.api_selectors import matches_selector
from clusters.embedded.apiserver.refusals import group_of

CREATE: Final = "CREATE"
UPDATE: Final = "UPDATE"
DELETE: Final = "DELETE"
_ANY: Final = "*"


@dataclass(frozen=True, slots=True)
class Deed:
    """An operation on a kind: enough to leave most policies aside."""

    operation: str
    resource: Resource
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class Admitted:
    """One object on its way into the store, or out of it."""

    deed: Deed
    namespace: str
    name: str
    new: Object | None = None
    old: Object | None = None
    namespace_object: Object | None = None


def may_match(match: Object, deed: Deed) -> bool:
    """Whether the rules name such a request, whatever its object is; a policy without rules names all of them."""
    rules = match.get("resourceRules") or []
    return not rules or any(_names_deed(rule, deed) for rule in rules)


def matches(match: Object, admitted: Admitted) -> bool:
    """Whether ``matchConstraints`` or ``matchResources`` are about it."""
    rules = match.get("resourceRules") or []
    return (
        (not rules or _any_names(rules, admitted))
        and not _any_names(match.get("excludeResourceRules") or [], admitted)
        and _selects_namespace(match.get("namespaceSelector") or {}, admitted)
        and _selects_object(match.get("objectSelector") or {}, admitted)
    )


def _any_names(rules: Iterable[Object], admitted: Admitted) -> bool:
    return any(_names_deed(rule, admitted.deed) and _names_object(rule, admitted) for rule in rules)


def _names_deed(rule: Object, deed: Deed) -> bool:
    wanted = (
        ("operations", deed.operation),
        ("apiGroups", group_of(deed.resource)),
        ("apiVersions", deed.resource.api_version.rpartition("/")[2]),
    )
    named = all(_lists(rule.get(key) or (), word) for key, word in wanted)
    return named and any(_covers(each, deed) for each in rule.get("resources") or ())


def _covers(pattern: str, deed: Deed) -> bool:
    """``pods``, ``pods/status``, ``pods/*``, ``*/status``, ``*`` (no subresource), ``*/*``."""
    plural, _, subresource = pattern.partition("/")
    return plural in (_ANY, deed.resource.plural) and subresource in (_ANY, deed.subresource)


def _names_object(rule: Object, admitted: Admitted) -> bool:
    names, scope = rule.get("resourceNames") or (), rule.get("scope") or _ANY
    is_namespaced = admitted.deed.resource != NAMESPACES and bool(admitted.namespace)
    in_scope = scope == _ANY or (scope == "Namespaced") == is_namespaced
    return in_scope and (not names or admitted.name in names)


def _selects_namespace(selector: Object, admitted: Admitted) -> bool:
    """By the labels of its namespace; a Namespace by its own labels; any other object of the whole cluster is selected."""
    if not selector:
        return True
    if admitted.deed.resource == NAMESPACES:
        return matches_selector(selector, labels_of(admitted.new or admitted.old or {}))
    return admitted.namespace_object is None or matches_selector(selector, labels_of(admitted.namespace_object))


def _selects_object(selector: Object, admitted: Admitted) -> bool:
    """By the labels before or after the change."""
    states = [each for each in (admitted.new, admitted.old) if each is not None]
    return not selector or any(matches_selector(selector, labels_of(each)) for each in states)


def _lists(words: Any, word: str) -> bool:
    return word in words or _ANY in words


def set_defaults(resource: Resource, item: Object) -> None:
    """Fill in the defaults of a policy or a binding. Changes it."""
    spec = item.setdefault("spec", {})
    if resource in (MUTATING_ADMISSION_POLICIES, VALIDATING_ADMISSION_POLICIES):
        spec.setdefault("failurePolicy", "Fail")
        match = spec.setdefault("matchConstraints", {})
    else:
        match = spec.get("matchResources")
    if match is None:
        return
    match.setdefault("matchPolicy", "Equivalent")
    for key in ("namespaceSelector", "objectSelector"):
        match.setdefault(key, {})
    for rule in (*match.get("resourceRules", ()), *match.get("excludeResourceRules", ())):
        rule.setdefault("scope", _ANY)
