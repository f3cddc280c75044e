"""ValidatingAdmissionPolicies: what a cluster's operator forbids, beyond roles.

Covered: policies with a binding, on creations, changes and deletions, with rules, selectors, match conditions, variables,
messages and reasons; expressions know ``object``, ``oldObject``, ``request``, ``namespaceObject`` and ``authorizer``. A policy with
parameters fails by its ``failurePolicy``. Warnings and audit annotations are not written.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from clusters.api.resources import (
    NAMESPACES,
    VALIDATING_ADMISSION_POLICIES,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
)
from clusters.embedded.apiserver import policy_matching
from clusters.embedded.apiserver.api_objects import Object, name_of
from clusters.embedded.apiserver.api_routes import Route
from clusters.embedded.apiserver.authorization import Attributes, Authorizer, User
from clusters.embedded.apiserver.discovery import user_info
from clusters.embedded.apiserver.policy_matching import Admitted, Deed, ExpressionError, Function, Scope
from clusters.embedded.apiserver.refusals import RefusalError, forbidden, group_of
from clusters.embedded.apiserver.requests import Request
from clusters.embedded.apiserver.store import Store
from clusters.embedded.apiserver.writes import Validation

_CODES: Final = {"Unauthorized": 401, "Forbidden": 403, "RequestEntityTooLarge": 413, "Invalid": 422}
_NAMELESS: Final = "Unknown"
_WORDS: Final = ("group", "resource", "subresource", "namespace", "name")


@dataclass(frozen=True, slots=True)
class _Bound:
    """A policy and its bindings, by name."""

    name: str
    spec: Object
    bindings: tuple[Object, ...]


@dataclass(frozen=True, slots=True)
class _Denial:
    message: str
    reason: str = ""


class ValidationPolicies:
    """The policies that are in the store at that moment."""

    def __init__(self, store: Store, authorizer: Authorizer) -> None:
        self._store = store
        self._authorizer = authorizer
        self._bound: list[_Bound] | None = None
        self._relevant: dict[Deed, tuple[_Bound, ...]] = {}
        for resource in (VALIDATING_ADMISSION_POLICIES, VALIDATING_ADMISSION_POLICY_BINDINGS):
            store.wake_on_change(resource, self._forget)

    def of(self, request: Request, route: Route) -> Validation:
        """The judgement of policies on the objects that a request writes."""

        def validation(operation: str, new: Object | None, old: Object | None) -> None:
            deed = Deed(operation, route.resource, route.subresource or "")
            relevant = self._about(deed)
            if not relevant:
                return
            namespace = route.namespace or ""
            where = self._store.get(NAMESPACES, "", namespace) if namespace else None
            new, old = (None if each is None else _whole(each, deed) for each in (new, old))
            name = route.name or (name_of(new) if new is not None else "")
            admitted = Admitted(deed, namespace, name, new, old, where.item if where else None)
            scope = self._scope(admitted, request)
            for policy in relevant:
                self._check(policy, admitted, scope)

        return validation

    def _check(self, policy: _Bound, admitted: Admitted, scope: Scope) -> None:
        if not policy_matching.matches(policy.spec.get("matchConstraints") or {}, admitted):
            return
        denials: list[_Denial] | None = None
        for binding in policy.bindings:
            spec = binding["spec"]
            if "Deny" not in spec.get("validationActions", ()):
                continue
            if not policy_matching.matches(spec.get("matchResources") or {}, admitted):
                continue
            if denials is None:
                denials = list(_denials(policy.spec, scope))
            for denial in denials:
                raise _refusal(admitted, policy.name, name_of(binding), denial)

    def _scope(self, admitted: Admitted, request: Request) -> Scope:
        values = {
            "object": admitted.new,
            "oldObject": admitted.old,
            "request": _request(admitted, request),
            "namespaceObject": admitted.namespace_object,
            "authorizer": {
                "requestResource": {
                    "group": group_of(admitted.deed.resource),
                    "resource": admitted.deed.resource.plural,
                    "subresource": admitted.deed.subresource,
                    "namespace": admitted.namespace,
                    "name": admitted.name,
                }
            },
        }
        return Scope(values, _authorizer_functions(self._authorizer, request.user))

    def _about(self, deed: Deed) -> tuple[_Bound, ...]:
        if deed not in self._relevant:
            # As in the real server, no policy is about the kinds with which policies are written.
            is_exempt = deed.resource.api_version == VALIDATING_ADMISSION_POLICIES.api_version
            self._relevant[deed] = tuple(
                each
                for each in ([] if is_exempt else self._all())
                if policy_matching.may_match(each.spec.get("matchConstraints") or {}, deed)
            )
        return self._relevant[deed]

    def _all(self) -> list[_Bound]:
        if self._bound is None:
            bindings = [each.item for each in self._store.all(VALIDATING_ADMISSION_POLICY_BINDINGS)]
            found = ((each.item, name_of(each.item)) for each in self._store.all(VALIDATING_ADMISSION_POLICIES))
            self._bound = [
                _Bound(name, policy["spec"], tuple(one for one in bindings if one["spec"].get("policyName") == name))
                for policy, name in found
            ]
        return self._bound

    def _forget(self) -> None:
        self._bound = None
        self._relevant.clear()


def _denials(spec: Object, scope: Scope) -> Iterator[_Denial]:
    """The denials of one policy, in the order of its validations; an error counts by its ``failurePolicy``."""
    ignores_errors = spec.get("failurePolicy") == "Ignore"
    scope.compose({each["name"]: each["expression"] for each in spec.get("variables") or ()})
    try:
        if spec.get("paramKind"):
            raise ExpressionError("the embedded API server knows no parameters of admission policies")
        validations = (spec.get("validations") or ()) if _conditions_hold(spec, scope) else ()
    except ExpressionError as error:
        validations = ()
        if not ignores_errors:
            yield _Denial(str(error))
    for validation in validations:
        try:
            if scope.evaluate(validation["expression"]) is not True:
                yield _Denial(_message(validation, scope), validation.get("reason", ""))
        except ExpressionError as error:
            if not ignores_errors:
                yield _Denial(str(error))


def _conditions_hold(spec: Object, scope: Scope) -> bool:
    """Whether all match conditions are true; one that is false decides, whatever is wrong with another. Raises ExpressionError."""
    failed: ExpressionError | None = None
    for condition in spec.get("matchConditions") or ():
        try:
            if scope.evaluate(condition["expression"]) is not True:
                return False
        except ExpressionError as error:
            failed = failed or error
    if failed:
        raise failed
    return True


def _message(validation: Object, scope: Scope) -> str:
    """The message of a validation that is not true: from ``messageExpression``, else ``message``, else the expression."""
    found = None
    if validation.get("messageExpression"):
        with contextlib.suppress(ExpressionError):
            found = scope.evaluate(validation["messageExpression"])
    text = found.strip() if isinstance(found, str) and "\n" not in found.strip() else ""
    return text or validation.get("message", "").strip() or f"failed expression: {validation['expression'].strip()}"


def _refusal(admitted: Admitted, policy: str, binding: str, denial: _Denial) -> RefusalError:
    text = f"ValidatingAdmissionPolicy '{policy}' with binding '{binding}' denied request: {denial.message}"
    refusal = forbidden(admitted.deed.resource, admitted.name or _NAMELESS, text)
    refusal.reason = denial.reason or "Invalid"
    refusal.code = _CODES.get(refusal.reason, 422)
    refusal.details = {**(refusal.details or {}), "causes": [{"message": text}]}
    return refusal


def _whole(item: Object, deed: Deed) -> Object:
    if "kind" in item:
        return item
    return {"kind": deed.resource.kind, "apiVersion": deed.resource.api_version, **item}


def _request(admitted: Admitted, request: Request) -> Object:
    """The variable ``request``; what is empty is not there."""
    deed = admitted.deed
    # A Binding or an Eviction has its own kind; its resource is the pod's.
    item = admitted.new or admitted.old or {}
    kind_group, _, kind_version = item["apiVersion"].rpartition("/")
    kinds = {"group": kind_group, "version": kind_version, "kind": item["kind"]}
    group, version = group_of(deed.resource), deed.resource.api_version.rpartition("/")[2]
    resources = {"group": group, "version": version, "resource": deed.resource.plural}
    optional = {"name": admitted.name, "namespace": admitted.namespace, "subResource": deed.subresource}
    return {
        "kind": kinds,
        "resource": resources,
        "operation": deed.operation,
        "userInfo": user_info(request.user),
        "dryRun": request.dry_run,
        **{key: value for key, value in optional.items() if value},
    }


def _authorizer_functions(authorizer: Authorizer, user: User) -> Mapping[str, Function]:
    """The methods behind ``authorizer``: each adds one word to the question, ``check`` asks it."""

    def word(key: str) -> Callable[[Object, str], Object]:
        return lambda asked, value: {**asked, key: value}

    def check(asked: Object, verb: str) -> Object:
        wish = replace(Attributes(verb), **{key: asked[key] for key in _WORDS if key in asked})
        return {"allowed": authorizer.allows(user, wish)}

    functions: dict[str, Function] = {key: word(key) for key in _WORDS}
    return functions | {"check": check, "allowed": lambda found: found["allowed"]}
