"""Which requests an admission policy is about, and what mutating policies make of new objects. Pure.

MutatingAdmissionPolicies are supported in part: policies with a binding, on creations, with match conditions, variables ``object``,
``oldObject``, ``request`` and ``namespaceObject``, and mutations of the form ApplyConfiguration. A policy that asks for more
(parameters, JSON patches, variables of its own) fails, by its ``failurePolicy``: an unsupported part must not look as if it did
nothing.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from clusters.api.resources import NAMESPACES, Resource
from clusters.embedded.apiserver import strategic_patch
from clusters.embedded.apiserver.api_objects import Object, labels_of, name_of, without_empties
from clusters.embedded.apiserver.api_selectors import matches_selector
from clusters.embedded.apiserver.expressions import ExpressionError, Scope
from clusters.embedded.apiserver.refusals import forbidden, group_of

CREATE: Final = "CREATE"
UPDATE: Final = "UPDATE"
DELETE: Final = "DELETE"
_ANY: Final = "*"
_APPLY: Final = "ApplyConfiguration"


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


def mutated(creation: Admitted, policies: Iterable[Object], bindings: Iterable[Object]) -> Object:
    """The new object after all policies that are bound, by name. Raises RefusalError (403) if one fails that may not."""
    bound = {binding["spec"].get("policyName") for binding in bindings}
    item = creation.new or {}
    for policy in sorted(policies, key=name_of):
        spec = policy["spec"]
        if name_of(policy) not in bound or not matches(spec.get("matchConstraints", {}), creation):
            continue
        try:
            item = _after(spec, creation, item)
        except ExpressionError as error:
            if spec.get("failurePolicy") != "Ignore":
                text = f"policy '{name_of(policy)}' denied request: {error}"
                raise forbidden(creation.deed.resource, creation.name, text) from error
    return item


def _after(spec: Object, creation: Admitted, item: Object) -> Object:
    """The object after one policy. Raises ExpressionError."""
    _check_support(spec)
    scope = _scope(creation, item)
    if not all(scope.evaluate(condition["expression"]) is True for condition in spec.get("matchConditions", [])):
        return item
    for mutation in spec.get("mutations", []):
        wanted = _scope(creation, item).evaluate(mutation["applyConfiguration"]["expression"])
        if not isinstance(wanted, dict):
            raise ExpressionError("a mutation's value is no object")
        try:
            item = strategic_patch.apply(copy.deepcopy(item), without_empties(wanted))
        except (ValueError, TypeError, AttributeError) as error:
            raise ExpressionError(f"the mutation does not fit the object: {error}") from error
    return item


def _check_support(spec: Object) -> None:
    missing = [key for key in ("paramKind", "variables") if spec.get(key)]
    missing += [mutation["patchType"] for mutation in spec.get("mutations", []) if mutation["patchType"] != _APPLY]
    if missing:
        raise ExpressionError(f"the embedded API server knows no {', '.join(missing)} of admission policies")


def _scope(creation: Admitted, item: Object) -> Scope:
    request = {"operation": CREATE, "namespace": creation.namespace, "name": name_of(item)}
    about = {"object": item, "oldObject": None, "request": request, "namespaceObject": creation.namespace_object}
    return Scope(about)
