"""Promises of clusters.embedded.apiserver.validation_policies; the comparison with the real server is in e2e/parity."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from clusters.api.resources import NODES, PODS, VALIDATING_ADMISSION_POLICIES, resource_of
from clusters.embedded.apiserver.api_routes import Route
from clusters.embedded.apiserver.authentication import MASTERS, User
from clusters.embedded.apiserver.authorization import Authorizer
from clusters.embedded.apiserver.policy_matching import CREATE, DELETE, UPDATE
from clusters.embedded.apiserver.refusals import RefusalError
from clusters.embedded.apiserver.requests import Request
from clusters.embedded.apiserver.validation_policies import ValidationPolicies
from clusters.embedded.apiserver.writes import Terms, Writes
from tests.clusters.embedded.apiserver.samples import new_writes, node, pod, refused

RULES = [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods", "pods/status"]}]
DENY = [{"expression": "false", "message": "no"}]
ROUTE = Route(PODS, "default", "p")
KEY = "authentication.kubernetes.io/node-name"


def policy(name: str = "x", bound: dict[str, Any] | None = None, **spec: Any) -> list[dict[str, Any]]:
    """A policy about pods and its binding; ``bound`` is laid over the binding's spec, ``spec`` over the policy's."""
    head = {"apiVersion": VALIDATING_ADMISSION_POLICIES.api_version, "metadata": {"name": name}}
    whole = {"matchConstraints": {"resourceRules": RULES}, "validations": DENY, **spec}
    binding = {"policyName": name, "validationActions": ["Deny"], **(bound or {})}
    return [
        head | {"kind": "ValidatingAdmissionPolicy", "spec": whole},
        head | {"kind": "ValidatingAdmissionPolicyBinding", "spec": binding},
    ]


def install(writes: Writes, *manifests: dict[str, Any]) -> None:
    """Create them."""
    for manifest in manifests:
        writes.create(resource_of(manifest), "", manifest)


def request(user: User | None = None) -> Request:
    """A request of an administrator, or of the given user."""
    user = user or User("admin", (MASTERS,))
    return Request("POST", "/api/v1/namespaces/default/pods", {}, "application/json", "", b"", user)


def judge(writes: Writes, operation: str = CREATE, route: Route = ROUTE, **how: Any) -> None:
    """Ask the policies about a pod."""
    new = how.get("new", pod())
    policies = ValidationPolicies(writes.store, Authorizer(writes.store))
    policies.of(request(how.get("user")), route)(operation, new, how.get("old"))


def text_of(writes: Writes, **how: Any) -> str:
    """The message of the first denial of a pod, "" if it is admitted."""
    try:
        judge(writes, **how)
    except RefusalError as refusal:
        return refusal.message.rpartition("denied request: ")[2]
    return ""


def test_a_policy_denies_with_a_binding_only() -> None:
    """The refusal names policy, binding and object; the policy stops acting once its binding is gone."""
    writes = new_writes()
    first, second = policy()
    install(writes, first)
    judge(writes)
    install(writes, second)
    refusal = refused(422, lambda: judge(writes))
    text = "ValidatingAdmissionPolicy 'x' with binding 'x' denied request: no"
    assert refusal.message == f'pods "p" is forbidden: {text}'
    assert refusal.details == {"name": "p", "kind": "pods", "causes": [{"message": text}]}


def test_the_policies_that_are_there_now_count() -> None:
    """One object answers for all requests: it learns of what comes and goes."""
    writes = new_writes()
    policies = ValidationPolicies(writes.store, Authorizer(writes.store))
    validation = policies.of(request(), ROUTE)
    validation(CREATE, pod(), None)
    manifests = policy()
    install(writes, *manifests)
    refused(422, lambda: validation(CREATE, pod(), None))
    stored = writes.store.get(resource_of(manifests[1]), "", "x")
    assert stored is not None
    writes.store.remove(stored.resource, stored.item)
    validation(CREATE, pod(), None)


def test_a_request_that_no_rule_names_costs_no_expression() -> None:
    """An expression that would fail is not looked at."""
    writes = new_writes()
    install(writes, *policy(validations=[{"expression": "nonsense("}]))
    policies = ValidationPolicies(writes.store, Authorizer(writes.store))
    policies.of(request(), Route(NODES, None, "n"))(UPDATE, node(), node())
    policies.of(request(), replace(ROUTE, subresource="binding"))(CREATE, {"metadata": {}}, None)
    refused(422, lambda: policies.of(request(), replace(ROUTE, subresource="status"))(UPDATE, pod(), pod()))


def test_of_a_deletion_the_old_object_is_known() -> None:
    """The policy of a deletion sees the old object and no new one."""
    writes = new_writes()
    told = "'gone: ' + oldObject.metadata.name + (object == null ? '' : '!')"
    install(writes, *policy(validations=[{"expression": "false", "messageExpression": told}]))
    assert text_of(writes, operation=DELETE, new=None, old=pod("q")) == "gone: q"


def test_writes_ask_before_anything_is_stored() -> None:
    """A deletion and a change that are denied leave the object as it was."""
    writes = new_writes()
    stored = writes.create(PODS, "default", pod())
    install(writes, *policy())
    validation = ValidationPolicies(writes.store, Authorizer(writes.store)).of(request(), ROUTE)
    refused(422, lambda: writes.create(PODS, "default", pod("q"), Terms(validation=validation)))
    refused(422, lambda: writes.replace(PODS, "default", "p", {**stored.item}, Terms(validation=validation)))
    refused(422, lambda: writes.patch(PODS, "default", "p", lambda item: item, Terms(validation=validation)))
    assert writes.get(PODS, "default", "p").version == stored.version
    assert writes.store.get(PODS, "default", "q") is None


def test_the_node_of_the_tokens_pod_is_known() -> None:
    """A policy can compare the node of the token's pod with another, which keeps a plugin to its own node."""
    writes = new_writes()
    expression = f"'{KEY}' in request.userInfo.extra && request.userInfo.extra['{KEY}'][0] == oldObject.spec.nodeName"
    install(writes, *policy(validations=[{"expression": expression, "message": "foreign"}]))
    here, there = (User("bot", (), extra={KEY: (name,)}) for name in ("n1", "n2"))
    old = pod(nodeName="n1")
    assert text_of(writes, operation=UPDATE, user=here, old=old) == ""
    assert text_of(writes, operation=UPDATE, user=there, old=old) == "foreign"


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}}, "the embedded API server knows no parameters"),
        ({"matchConditions": [{"name": "a", "expression": "object.gone"}]}, "expression 'object.gone' resulted in"),
        (
            {"matchConditions": [{"name": "a", "expression": "object.gone"}, {"name": "b", "expression": "object.no"}]},
            "[expression 'object.gone'",
        ),
        ({"matchConditions": [{"name": "a", "expression": "object.gone"}, {"name": "b", "expression": "false"}]}, ""),
        ({"validations": [{"expression": "object.gone", "message": "m"}]}, "expression 'object.gone' resulted in"),
    ],
    ids=str,
)
def test_what_fails_is_denied_or_ignored_as_the_policy_says(spec: dict[str, Any], text: str) -> None:
    """A policy that asks for what we do not imitate fails: it must not look as if it admitted."""
    strict, lenient = new_writes(), new_writes()
    install(strict, *policy(**spec))
    install(lenient, *policy(**spec, failurePolicy="Ignore"))
    assert text_of(strict).startswith(text)
    assert bool(text_of(strict)) is bool(text)
    assert text_of(lenient) == ""
