"""Validating admission policies refuse the same requests on both, with the same code, reason and text."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from clusters.api.waiting import eventually
from e2e.parity.parity_objects import Object, binding, config_map, made, maps, node_of, pod, pods, short
from e2e.parity.parity_requests import compare, delete, json_patch, merge, post, put, strategic
from e2e.parity.sides import Both, Side, account_token, stranger

_POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
_BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
# A label of no object but the one by which a case sees that its policy acts.
_PROBE = "policy-probe"
_PODS = ["pods", "pods/status", "pods/binding", "pods/eviction"]


def rules(*resources: str, operations: list[str] | None = None, **more: Any) -> list[Object]:
    """Rules about resources of the core group."""
    operations = operations or ["*"]
    return [{"apiGroups": [""], "apiVersions": ["v1"], "operations": operations, "resources": list(resources), **more}]


def deny_if(condition: str, **more: str) -> Object:
    """A validation that fails if an object, or before its deletion the old one, meets a condition on its annotations."""
    item = "(object != null ? object : oldObject)"
    condition = condition.replace("annotations", f"{item}.metadata.annotations")
    return {"expression": f"!(has({item}.metadata.annotations) && {condition})", **more}


@asynccontextmanager
async def acting(side: Side, spec: Object, **binding_spec: Any) -> AsyncIterator[None]:
    """A policy with this spec at work in the case's namespace; afterwards it is gone."""
    here = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": side.namespace}}}
    # A policy beside it, which comes later, shows when both are known: the real server reads new ones once a second.
    probe = {
        "matchConstraints": {"resourceRules": rules("configmaps", operations=["CREATE"])},
        "validations": [{"expression": f"!has(object.metadata.labels) || !('{_PROBE}' in object.metadata.labels)"}],
    }
    policies = {f"{side.namespace}-policy": (spec, binding_spec), f"{side.namespace}-policy-probe": (probe, {})}
    try:
        for name, (policy, more) in policies.items():
            bound = {"policyName": name, "validationActions": ["Deny"], "matchResources": here, **more}
            for plural, fields in ((_POLICIES, policy), (_BINDINGS, bound)):
                await made(side, plural, {"metadata": {"name": name}, "spec": fields})
        await eventually(lambda: _is_acting(side), bool, f"{side.name}: the policy acts")
        yield
    finally:
        for name in policies:
            for plural in (_BINDINGS, _POLICIES):
                await side.call("DELETE", f"{plural}/{name}")
        await eventually(lambda: _is_acting(side), lambda acts: not acts, f"{side.name}: the policy acts no more")


async def _is_acting(side: Side) -> bool:
    body = config_map("probe", labels={_PROBE: ""})
    answer = await side.call("POST", maps(side), body=body, params={"dryRun": "All"})
    return answer.code == 422


def annotated(name: str, **annotations: str) -> Object:
    """A pod with annotations."""
    return pod(name, annotations=annotations)


async def test_codes_reasons_and_texts_of_refusals(bare: Both) -> None:
    """A refusal is 422 or its reason's code, with the message, its expression's result or the expression."""
    kinds: list[tuple[Object, int]] = [
        ({"message": " as the policy says "}, 422),
        ({}, 422),
        ({"message": "not yours", "reason": "Forbidden"}, 403),
        ({"messageExpression": "'made of ' + object.metadata.name + ' '"}, 422),
        ({"messageExpression": "'a' + object.metadata.labels['gone']", "message": "instead"}, 422),
    ]
    validations = [deny_if(f"annotations.?number.orValue('') == '{at}'", **kind) for at, (kind, _) in enumerate(kinds)]
    spec = {"matchConstraints": {"resourceRules": rules("pods")}, "validations": validations}
    asks = [post("pods", annotated(f"p{at}", number=str(at)), code) for at, (_, code) in enumerate(kinds)]
    await compare(bare, *asks, post("pods", pod("fine")), around=lambda side: acting(side, spec))


async def test_every_way_of_writing_a_pod_is_judged(bare: Both) -> None:
    """A policy judges each way of writing a pod, dry runs and deletions of all included."""
    spec = {
        "matchConstraints": {"resourceRules": rules(*_PODS)},
        "validations": [deny_if("annotations.?deny.orValue('') == 'yes'", message="no")],
        # The object that is there already must not be in the way of what changes it.
        "matchConditions": [{"name": "new", "expression": "object != null || oldObject.metadata.name != 'p'"}],
    }
    deny: Object = {"metadata": {"annotations": {"deny": "yes"}}}
    denied: Object = {"annotations": {"deny": "yes"}}
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p", **denied}}
    await compare(
        bare,
        post("pods", pod("p")),
        post("pods", annotated("kept", deny="yes")),
        post("pods", annotated("kept-too", deny="yes")),
        post("pods", annotated("new", deny="yes"), 422),
        post("pods", annotated("new", deny="yes"), 422, dryRun="All"),
        put("pods/p", {"${object:0}": deny}, 422),
        merge("pods/p", deny, 422),
        strategic("pods/p", deny, 422),
        json_patch("pods/p", {"op": "add", "path": "/metadata/annotations", "value": {"deny": "yes"}}, code=422),
        merge("pods/p/status", deny, 422),
        merge("pods/p/status", {"status": {"message": "fine"}}),
        merge("pods/p", {"metadata": {"labels": {"a": "b"}}}),
        post("pods/p/binding", binding("p", **denied), 422),
        post("pods/none/binding", binding("none", **denied), 422),
        post("pods/p/eviction", eviction, 422),
        delete("pods/kept", 422),
        delete("pods/kept", 422, dryRun="All"),
        delete("pods", 422, fieldSelector="metadata.name=kept-too"),
        delete("pods/none", None),
        post("pods/p/binding", binding("p", annotations={"fine": "yes"}), None),
        around=lambda side: acting(side, spec),
        before=3,
    )


_TOLD = " + ' ' + ".join(
    [
        "request.operation",
        "(has(request.name) ? request.name : '-')",
        "(has(request.namespace) ? request.namespace : '-')",
        "(has(request.subResource) ? request.subResource : '-')",
        "request.resource.group",
        "request.resource.version",
        "request.resource.resource",
        "request.kind.group + '/' + request.kind.version + '/' + request.kind.kind",
        "request.requestKind.kind",
        "request.requestResource.resource",
        "(request.dryRun ? 'dry' : 'wet')",
        "(object == null ? '-' : object.kind + object.metadata.name)",
        "(oldObject == null ? '-' : oldObject.kind + oldObject.metadata.name)",
        "(namespaceObject == null ? '-' : namespaceObject.metadata.name)",
    ]
)


async def test_what_expressions_know_of_a_request(bare: Both) -> None:
    """Expressions know a request's operation, names, kinds, user, objects and namespace for each kind of write."""
    spec = {
        "matchConstraints": {"resourceRules": rules(*_PODS, "nodes", "nodes/status")},
        "matchConditions": [
            {"name": "told", "expression": "request.?namespace.orValue(request.?name.orValue('')) != ''"}
        ],
        "validations": [{"expression": "false", "messageExpression": _TOLD, "reason": "Forbidden"}],
    }
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    change = {"metadata": {"annotations": {"a": "b"}}}
    await compare(
        bare,
        post("pods", pod("p")),
        post("nodes", {"metadata": {"name": "${ns}"}}),
        post("pods", pod("q"), 403),
        post("pods", pod("fixed", generateName="some-"), 403),
        merge("pods/p", change, 403),
        merge("pods/p/status", change, 403),
        post("pods/p/binding", binding("p"), 403),
        post("pods/p/eviction", eviction, 403),
        delete("pods/p", 403),
        merge("nodes/${ns}", change, 403),
        merge("nodes/${ns}/status", change, 403),
        delete("nodes/${ns}", 403),
        around=lambda side: acting(side, spec),
        before=2,
    )
    await compare(bare, delete("nodes/${ns}"))


_GONE: Object = {"matchExpressions": [{"key": "gone", "operator": "Exists"}]}
_ABOUT: dict[str, tuple[Object, Object]] = {
    "operations": ({"resourceRules": rules("pods", operations=["UPDATE"])}, {}),
    "of the cluster": ({"resourceRules": rules("*", scope="Cluster")}, {}),
    "any subresource": ({"resourceRules": rules("pods/*")}, {}),
    "left out": ({"resourceRules": rules("*"), "excludeResourceRules": rules("pods")}, {}),
    "labelled": ({"resourceRules": rules("pods"), "objectSelector": {"matchLabels": {"a": "b"}}}, {}),
    "of other namespaces": ({"resourceRules": rules("pods"), "namespaceSelector": _GONE}, {}),
    "by the binding": (
        {"resourceRules": rules("pods", "configmaps")},
        {"matchResources": {"resourceRules": rules("configmaps")}},
    ),
    "only a warning": ({"resourceRules": rules("pods", "configmaps")}, {"validationActions": ["Warn", "Audit"]}),
}


@pytest.mark.parametrize("what", _ABOUT)
async def test_what_a_policy_is_about(bare: Both, what: str) -> None:
    """A policy is about the operations, names, scopes and objects that its rules, selectors and conditions select."""
    match, bound = _ABOUT[what]
    labelled = pod("y", labels={"a": "b"})

    def at_work(side: Side) -> AbstractAsyncContextManager[object]:
        condition = {"name": "here", "expression": f"request.?namespace.orValue('') == '{side.namespace}'"}
        no = [{"expression": "false", "message": "no"}]
        here = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": side.namespace}}}
        more = {key: {**here, **value} if key == "matchResources" else value for key, value in bound.items()}
        return acting(side, {"matchConstraints": match, "validations": no, "matchConditions": [condition]}, **more)

    await compare(
        bare,
        post("pods", pod("x"), 201 if what in ("left out", "only a warning") else None),
        post("pods", labelled, None),
        post("configmaps", config_map("c"), 422 if what == "left out" else None),
        merge("pods/y", {"metadata": {"labels": {"a": None}}}, None),
        merge("pods/x/status", {"status": {"message": "m"}}, None),
        delete("pods/x", None),
        delete("pods/y", None),
        delete("configmaps/c", None),
        around=at_work,
    )


_WRONG = "object.metadata.annotations['gone'] == 'x'"
_CONDITION = {"name": "c", "expression": _WRONG}
_FALSE = [{"expression": "false"}]
_VARIABLE = [{"name": "v", "expression": _WRONG}]
_PASSES = "object.metadata.name == 'p'"
# Each with the code if errors count.
_FAILING: list[tuple[Object, int]] = [
    ({"validations": [{"expression": _WRONG, "message": "unused", "reason": "Forbidden"}]}, 422),
    ({"matchConditions": [_CONDITION], "validations": _FALSE}, 422),
    ({"matchConditions": [_CONDITION, {"name": "d", "expression": "false"}], "validations": _FALSE}, 201),
    ({"variables": _VARIABLE, "validations": [{"expression": "variables.v"}]}, 422),
    ({"variables": _VARIABLE, "validations": [{"expression": f"{_PASSES} || variables.v"}]}, 201),
    ({"validations": [{"expression": _PASSES}, {"expression": _WRONG}]}, 422),
]


@pytest.mark.parametrize("failure", ["Fail", "Ignore"])
@pytest.mark.parametrize("spec", _FAILING, ids=range(len(_FAILING)))
async def test_expressions_that_fail(bare: Both, spec: tuple[Object, int], failure: str) -> None:
    """An expression that fails refuses the request or is passed over, as the policy's failurePolicy demands."""
    whole = {"matchConstraints": {"resourceRules": rules("pods")}, "failurePolicy": failure, **spec[0]}
    code = spec[1] if failure == "Fail" else 201
    tried = post("pods", annotated("p", some="y"), code, dryRun="All")
    await compare(bare, tried, around=lambda side: acting(side, whole))


async def let(side: Side, *granted: Object) -> None:
    """A role with these rules for the ServiceAccount ``bot`` of the case."""
    roles = f"{_RBAC}/namespaces/{side.namespace}"
    subject = {"kind": "ServiceAccount", "name": "bot", "namespace": side.namespace}
    await made(side, f"{roles}/roles", {"metadata": {"name": "r"}, "rules": list(granted)})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}
    bound = {"metadata": {"name": "r"}, "roleRef": reference, "subjects": [subject]}
    await made(side, f"{roles}/rolebindings", bound)


async def test_variables_and_the_authorizer(both: Both) -> None:
    """Expressions share variables, and can exempt an account by a right on a resource that need not exist."""
    check = "authorizer.group('example.com').resource('things').namespace(request.namespace)"
    spec = {
        "matchConstraints": {"resourceRules": rules("pods")},
        "variables": [
            {"name": "asked", "expression": "object.metadata.?annotations['right'].orValue('')"},
            {"name": "may", "expression": f"variables.asked == '' || {check}.check(variables.asked).allowed()"},
        ],
        "validations": [
            {"expression": "variables.may", "messageExpression": "'no right to ' + variables.asked"},
            {"expression": f"{check}.subresource('parts').name('x').check('get').allowed()", "message": "no parts"},
            {"expression": "authorizer.requestResource.check('update').allowed()", "message": "no update"},
        ],
    }

    async def observe(side: Side) -> Any:
        token = await account_token(side, "bot")
        await let(
            side,
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]},
            {"apiGroups": ["example.com"], "resources": ["things"], "verbs": ["override"]},
            {"apiGroups": ["example.com"], "resources": ["things/parts"], "resourceNames": ["x"], "verbs": ["get"]},
        )
        async with acting(side, spec), stranger(side, token=token) as bot:
            await eventually(
                lambda: bot.call("POST", pods(side), body=pod("probe"), params={"dryRun": "All"}),
                lambda answer: answer.code != 403,
                "the role is known",
            )
            return [
                short(await who.call("POST", pods(side), body=annotated("p", right=right), params={"dryRun": "All"}))
                for who in (side, bot)
                for right in ("override", "other")
            ]

    answers = await both.same(observe)
    texts = [body.get("message", "").rpartition("denied request: ")[2] for _, body in answers]
    assert texts == ["", "", "no update", "no right to other"]


async def test_the_node_of_a_token_that_is_bound_to_a_pod(both: Both) -> None:
    """Expressions know the pod to which a token is bound, and its node if it has one."""
    key = "authentication.kubernetes.io/node-name"
    told = " + ' ' + ".join(
        f"request.userInfo.extra[?'authentication.kubernetes.io/{word}'].orValue(['-'])[0]"
        for word in ("node-name", "pod-name")
    )
    presence = f"('{key.replace('name', 'uid')}' in request.userInfo.extra ? ' true' : ' false')"
    spec = {
        "matchConstraints": {"resourceRules": rules("configmaps", operations=["CREATE"])},
        "matchConditions": [{"name": "a", "expression": "request.userInfo.username.endsWith(':bot')"}],
        "validations": [{"expression": "false", "messageExpression": f"{told} + {presence}"}],
    }

    async def observe(side: Side) -> Any:
        await account_token(side, "bot")
        node = node_of(side)
        await made(side, "/api/v1/nodes", {"metadata": {"name": node}})
        homes = {"here": node, "nowhere": f"{node}-gone", "unbound": ""}
        await let(side, {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]})
        found = {}
        async with acting(side, spec):
            for name, home in homes.items():
                placed = {"nodeName": home} if home else {}
                await made(side, pods(side), pod(name, {"serviceAccountName": "bot", **placed}))
                reference = {"kind": "Pod", "apiVersion": "v1", "name": name}
                token = await account_token(side, "bot", boundObjectRef=reference)
                async with stranger(side, token=token) as bot:
                    answer = await eventually(
                        lambda bot=bot: bot.call("POST", maps(side), body=config_map("c")),  # type: ignore[misc]
                        lambda one: one.code == 422,
                        "the policy is asked",
                    )
                    found[name] = short(answer)
        await side.call("DELETE", f"/api/v1/nodes/{node}")
        return found

    found = await both.same(observe)
    texts = {name: body["message"].rpartition("denied request: ")[2] for name, (_, body) in found.items()}
    assert texts["here"].endswith(" here true")
    assert texts["nowhere"].endswith("-gone nowhere false")
    assert texts["unbound"] == "- unbound false"
