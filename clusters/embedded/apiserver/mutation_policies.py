"""MutatingAdmissionPolicies: what a cluster's operator has added to new objects. Pure.

Supported are policies with a binding, on creations, with match conditions, variables ``object``, ``oldObject``, ``request`` and
``namespaceObject``, and mutations of the form ApplyConfiguration. A policy that asks for more (parameters,
JSON patches, variables of its own) fails, by its ``failurePolicy``: an unsupported part must not look as if it did nothing.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any, Final

from clusters.embedded.apiserver import policy_matching, strategic_patch
from clusters.embedded.apiserver.api_objects import Object, name_of, without_empties
from clusters.embedded.apiserver.expressions import ExpressionError, evaluate
from clusters.embedded.apiserver.policy_matching import CREATE, Admitted
from clusters.embedded.apiserver.refusals import forbidden

_APPLY: Final = "ApplyConfiguration"


def mutated(creation: Admitted, policies: Iterable[Object], bindings: Iterable[Object]) -> Object:
    """The new object after all policies that are bound, by name. Raises RefusalError (403) if one fails that may not."""
    bound = {binding["spec"].get("policyName") for binding in bindings}
    item = creation.new or {}
    for policy in sorted(policies, key=name_of):
        spec = policy["spec"]
        if name_of(policy) not in bound or not policy_matching.matches(spec.get("matchConstraints", {}), creation):
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
    variables = _variables(creation, item)
    if not all(evaluate(condition["expression"], variables) is True for condition in spec.get("matchConditions", [])):
        return item
    for mutation in spec.get("mutations", []):
        wanted = evaluate(mutation["applyConfiguration"]["expression"], _variables(creation, item))
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


def _variables(creation: Admitted, item: Object) -> dict[str, Any]:
    request = {"operation": CREATE, "namespace": creation.namespace, "name": name_of(item)}
    return {"object": item, "oldObject": None, "request": request, "namespaceObject": creation.namespace_object}
