"""Validating admission policies refuse the same requests on both, with the same code, reason and text."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from clusters.api.waiting import eventually
from e2e.parity.parity_objects import (
    JSON_PATCH,
    MERGE,
    STRATEGIC,
    Object,
    binding,
    config_map,
    made,
    maps,
    node_of,
    patched,
    place,
    pod,
    pods,
    short,
)
from e2e.parity.parity_strangers import account_token, stranger
from e2e.parity.sides import Answer, Both, Side

_ROOT = "/apis/admissionregistration.k8s.io/v1"
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
    return {"expression": f"!(has({item}.metadata.annotations) && {_on_annotations(condition, item)})", **more}


def _on_annotations(condition: str, item: str) -> str:
    return condition.replace("annotations", f"{item}.metadata.annotations")


@asynccontextmanager
async def acting(side: Side, spec: Object, **binding_spec: Any) -> AsyncIterator[list[Answer]]:
    """A policy with this spec at work in the case's namespace, and the answers to its two manifests; afterwards it is gone."""
    name = f"{side.namespace}-policy"
    here = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": side.namespace}}}
    probe = {"expression": f"!has(object.metadata.labels) || !('{_PROBE}' in object.metadata.labels)"}
    policy = {"metadata": {"name": name}, "spec": spec}
    bound = {"policyName": name, "validationActions": ["Deny"], "matchResources": here, **binding_spec}
    answers = [await side.call("POST", f"{_ROOT}/validatingadmissionpolicies", body=policy)]
    answers += [
        await side.call(
            "POST", f"{_ROOT}/validatingadmissionpolicybindings", body={"metadata": {"name": name}, "spec": bound}
        )
    ]
    # A policy beside it, which came later, shows when both are known: the real server reads new ones once a second.
    last = {"metadata": {"name": f"{name}-probe"}}
    constraints = {"resourceRules": rules("configmaps")}
    await made(
        side,
        f"{_ROOT}/validatingadmissionpolicies",
        last | {"spec": {"matchConstraints": constraints, "validations": [probe]}},
    )
    await made(
        side,
        f"{_ROOT}/validatingadmissionpolicybindings",
        last | {"spec": {"policyName": f"{name}-probe", "validationActions": ["Deny"], "matchResources": here}},
    )
    try:
        assert [answer.code for answer in answers] == [201, 201], f"{[answer.body for answer in answers]}"
        await eventually(lambda: _is_acting(side), bool, f"{side.name}: the policy acts")
        yield answers
    finally:
        for each in (name, f"{name}-probe"):
            await side.call("DELETE", f"{_ROOT}/validatingadmissionpolicybindings/{each}")
            await side.call("DELETE", f"{_ROOT}/validatingadmissionpolicies/{each}")
        await eventually(lambda: _is_acting(side), lambda acts: not acts, f"{side.name}: the policy acts no more")


async def _is_acting(side: Side) -> bool:
    body = config_map("probe", labels={_PROBE: ""})
    answer = await side.call("POST", maps(side), body=body, params={"dryRun": "All"})
    return answer.code == 422


def annotated(name: str, **annotations: str) -> Object:
    """A pod with annotations."""
    return pod(name, annotations=annotations)


async def test_codes_reasons_and_texts_of_refusals(bare: Both) -> None:
    """H12: 422 unless a reason names another code; the message, the result of its expression, or the expression itself."""
    kinds: list[Object] = [
        {"message": " as the policy says "},
        {},
        {"message": "not yours", "reason": "Forbidden"},
        {"message": "much", "reason": "RequestEntityTooLarge"},
        {"message": "wrong", "reason": "Invalid"},
        {"messageExpression": "'made of ' + object.metadata.name + ' '"},
        {"messageExpression": "'one\\ntwo'", "message": "instead"},
        {"messageExpression": "'a' + object.metadata.labels['gone']", "message": "instead"},
        {"messageExpression": "'  ' + ' '"},
    ]
    validations = [deny_if(f"annotations.?number.orValue('') == '{at}'", **kind) for at, kind in enumerate(kinds)]
    spec = {"matchConstraints": {"resourceRules": rules("pods")}, "validations": validations}

    async def observe(side: Side) -> Any:
        async with acting(side, spec):
            return [
                short(await side.call("POST", pods(side), body=annotated(f"p{at}", number=str(at))))
                for at in range(len(kinds) + 1)
            ]

    answers = await bare.same(observe)
    assert [code for code, _ in answers] == [422, 422, 403, 413, 422, 422, 422, 422, 422, 201]


async def test_every_way_of_writing_a_pod_is_judged(bare: Both) -> None:
    """H12: PUT, patches, status, Binding, eviction, deletion, alone and of all; also if nothing would be written."""
    validations = [deny_if("annotations.?deny.orValue('') == 'yes'", message="no")]
    # The object that is there already must not be in the way of what changes it.
    conditions = [{"name": "new", "expression": "object != null || oldObject.metadata.name != 'p'"}]
    spec = {
        "matchConstraints": {"resourceRules": rules(*_PODS)},
        "validations": validations,
        "matchConditions": conditions,
    }
    deny = {"metadata": {"annotations": {"deny": "yes"}}}

    async def observe(side: Side) -> Any:
        created = await made(side, pods(side), pod("p"))
        for name in ("kept", "kept-too"):
            await made(side, pods(side), annotated(name, deny="yes"))
        put = created | {"metadata": created["metadata"] | deny["metadata"]}
        operations = [{"op": "add", "path": "/metadata/annotations", "value": {"deny": "yes"}}]
        here, status = pods(side, "p"), pods(side, "p", "status")
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p", **deny["metadata"]}}
        calls: list[Callable[[], Awaitable[Answer]]] = [
            lambda: side.call("POST", pods(side), body=annotated("new", deny="yes")),
            lambda: side.call("POST", pods(side), body=annotated("new", deny="yes"), params={"dryRun": "All"}),
            lambda: side.call("PUT", here, body=put),
            lambda: patched(side, here, deny, MERGE),
            lambda: patched(side, here, deny, STRATEGIC),
            lambda: patched(side, here, operations, JSON_PATCH),
            lambda: patched(side, status, deny, MERGE),
            lambda: patched(side, status, {"status": {"message": "fine"}}, MERGE),
            lambda: patched(side, here, {"metadata": {"labels": {"a": "b"}}}, MERGE),
            lambda: side.call("POST", pods(side, "p", "binding"), body=binding("p", annotations={"deny": "yes"})),
            lambda: side.call("POST", place(side, "bindings"), body=binding("p", annotations={"deny": "yes"})),
            lambda: side.call("POST", pods(side, "none", "binding"), body=binding("none", annotations={"deny": "yes"})),
            lambda: side.call("POST", pods(side, "p", "eviction"), body=eviction),
            lambda: side.call("DELETE", pods(side, "kept")),
            lambda: side.call("DELETE", pods(side, "kept"), params={"dryRun": "All"}),
            lambda: side.call("DELETE", pods(side), params={"fieldSelector": "metadata.name=kept-too"}),
            lambda: side.call("DELETE", pods(side, "none")),
            lambda: side.call("POST", pods(side, "p", "binding"), body=binding("p", annotations={"fine": "yes"})),
        ]
        async with acting(side, spec):
            return [short(await call()) for call in calls]

    answers = await bare.same(observe)
    codes = [code for code, _ in answers]
    # The collection ``bindings`` is another resource, which the rules do not name: that one binds the pod.
    assert codes[:7] == [422] * 7
    assert codes[7:10] == [200, 200, 422]
    assert codes[11:16] == [422] * 5


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
        "request.userInfo.username",
        "string(request.userInfo.groups.size())",
        "(object == null ? '-' : object.kind + object.metadata.name)",
        "(oldObject == null ? '-' : oldObject.kind + oldObject.metadata.name)",
        "(namespaceObject == null ? '-' : namespaceObject.metadata.name)",
    ]
)


async def test_what_expressions_know_of_a_request(bare: Both) -> None:
    """H12: operation, names, kinds, user, both objects and the namespace, for each kind of write."""
    spec = {
        "matchConstraints": {"resourceRules": rules(*_PODS, "nodes", "nodes/status")},
        "matchConditions": [{"name": "told", "expression": "request.userInfo.username == 'teller'"}],
        "validations": [{"expression": "false", "messageExpression": _TOLD, "reason": "Forbidden"}],
    }

    async def observe(side: Side) -> Any:
        await made(side, pods(side), pod("p"))
        node = node_of(side)
        await made(side, "/api/v1/nodes", {"metadata": {"name": node}})
        headers = {"impersonate-user": "teller", "impersonate-group": "system:masters"}
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
        change = {"metadata": {"annotations": {"a": "b"}}}
        calls: list[tuple[str, str, Any]] = [
            ("POST", pods(side), pod("q")),
            ("POST", pods(side), pod(generateName="some-") | {"metadata": {"name": "fixed", "generateName": "some-"}}),
            ("PATCH", pods(side, "p"), change),
            ("PATCH", pods(side, "p", "status"), change),
            ("POST", pods(side, "p", "binding"), binding("p")),
            ("POST", pods(side, "p", "eviction"), eviction),
            ("DELETE", pods(side, "p"), None),
            ("PATCH", f"/api/v1/nodes/{node}", change),
            ("PATCH", f"/api/v1/nodes/{node}/status", change),
            ("DELETE", f"/api/v1/nodes/{node}", None),
        ]
        async with acting(side, spec):
            answers = [
                short(await side.call(method, path, body=body, content_type=_type(method), headers=headers))
                for method, path, body in calls
            ]
        await side.call("DELETE", f"/api/v1/nodes/{node}")
        return answers

    answers = await bare.same(observe)
    assert [code for code, _ in answers] == [403] * 10


def _type(method: str) -> str:
    return MERGE if method == "PATCH" else "application/json"


async def test_what_a_policy_is_about(bare: Both) -> None:
    """H12: operations, names, scope, what is left out, selectors of objects and of the binding, and match conditions."""
    no = [{"expression": "false", "message": "no"}]
    cases: dict[str, tuple[Object, Object]] = {
        "operations": ({"resourceRules": rules("pods", operations=["UPDATE"])}, {}),
        "names": ({"resourceRules": rules("pods", resourceNames=["x"])}, {}),
        "namespaced": ({"resourceRules": rules("*", scope="Namespaced")}, {}),
        "of the cluster": ({"resourceRules": rules("*", scope="Cluster")}, {}),
        "any subresource": ({"resourceRules": rules("pods/*")}, {}),
        "any status": ({"resourceRules": rules("*/status")}, {}),
        "left out": ({"resourceRules": rules("*"), "excludeResourceRules": rules("pods")}, {}),
        "labelled": ({"resourceRules": rules("pods"), "objectSelector": {"matchLabels": {"a": "b"}}}, {}),
        "of other namespaces": (
            {
                "resourceRules": rules("pods"),
                "namespaceSelector": {"matchExpressions": [{"key": "gone", "operator": "Exists"}]},
            },
            {},
        ),
        "by the binding": (
            {"resourceRules": rules("pods", "configmaps")},
            {"matchResources": {"resourceRules": rules("configmaps")}},
        ),
        "only a warning": ({"resourceRules": rules("pods", "configmaps")}, {"validationActions": ["Warn", "Audit"]}),
    }

    async def observe(side: Side, match: Object, bound: Object) -> Any:
        condition = {"name": "here", "expression": f"request.?namespace.orValue('') == '{side.namespace}'"}
        spec = {"matchConstraints": match, "validations": no, "matchConditions": [condition]}
        here = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": side.namespace}}}
        if "matchResources" in bound:
            bound = {**bound, "matchResources": {**here, **bound["matchResources"]}}
        async with acting(side, spec, **bound):
            return {
                "pod": (await side.call("POST", pods(side), body=pod("x"))).code,
                "labelled": (await side.call("POST", pods(side), body=pod("y", labels={"a": "b"}))).code,
                "map": (await side.call("POST", maps(side), body=config_map("c"))).code,
                "label": (await patched(side, pods(side, "y"), {"metadata": {"labels": {"a": None}}})).code,
                "status": (await patched(side, pods(side, "x", "status"), {"status": {"message": "m"}})).code,
                "deleted": [(await side.call("DELETE", pods(side, name))).code for name in ("x", "y")],
                "map deleted": (await side.call("DELETE", maps(side, "c"))).code,
            }

    found = {}
    for what, (match, bound) in cases.items():
        found[what] = await bare.same(lambda side, match=match, bound=bound: observe(side, match, bound))  # type: ignore[misc]
    assert found["left out"]["map"] == 422
    assert found["left out"]["pod"] == 201
    assert found["labelled"]["label"] in (404, 422)
    assert found["only a warning"]["pod"] == 201


@pytest.mark.parametrize("failure", ["Fail", "Ignore"])
async def test_expressions_that_fail(bare: Both, failure: str) -> None:
    """H12: a condition, a validation, a variable: refused with the error, or passed over, by the policy's choice."""
    wrong = "object.metadata.annotations['gone'] == 'x'"
    specs: list[Object] = [
        {"validations": [{"expression": wrong, "message": "unused", "reason": "Forbidden"}]},
        {"matchConditions": [{"name": "c", "expression": wrong}], "validations": [{"expression": "false"}]},
        {
            "matchConditions": [{"name": "c", "expression": wrong}, {"name": "d", "expression": "false"}],
            "validations": [{"expression": "false"}],
        },
        {"variables": [{"name": "v", "expression": wrong}], "validations": [{"expression": "variables.v"}]},
        {
            "variables": [{"name": "v", "expression": wrong}],
            "validations": [{"expression": "object.metadata.name == 'p' || variables.v", "message": "never"}],
        },
        {"validations": [{"expression": "object.metadata.name == 'p'"}, {"expression": wrong}]},
    ]

    async def observe(side: Side, spec: Object) -> Any:
        whole = {"matchConstraints": {"resourceRules": rules("pods")}, "failurePolicy": failure, **spec}
        async with acting(side, whole):
            body = annotated("p", some="y")
            return short(await side.call("POST", pods(side), body=body, params={"dryRun": "All"}))

    answers = [await bare.same(lambda side, spec=spec: observe(side, spec)) for spec in specs]  # type: ignore[misc]
    expected = {"Fail": [422, 422, 201, 422, 201, 422], "Ignore": [201, 201, 201, 201, 201, 201]}
    assert [code for code, _ in answers] == expected[failure]


async def test_variables_and_the_authorizer(both: Both) -> None:
    """H12: an account is exempt by a right on a resource that need not exist; variables are shared by expressions."""
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
        name = f"{side.namespace}-things"
        token = await account_token(side, "bot")
        subject = {"kind": "ServiceAccount", "name": "bot", "namespace": side.namespace}
        granted = [
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]},
            {"apiGroups": ["example.com"], "resources": ["things"], "verbs": ["override"]},
            {"apiGroups": ["example.com"], "resources": ["things/parts"], "resourceNames": ["x"], "verbs": ["get"]},
        ]
        roles = f"{_RBAC}/namespaces/{side.namespace}"
        await made(side, f"{roles}/roles", {"metadata": {"name": name}, "rules": granted})
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
        await made(
            side, f"{roles}/rolebindings", {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}
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
    """H12: expressions know the pod to which a token is bound, and its node; a pod without a node has none."""
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
        subject = {"kind": "ServiceAccount", "name": "bot", "namespace": side.namespace}
        roles = f"{_RBAC}/namespaces/{side.namespace}"
        granted = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]}]
        await made(side, f"{roles}/roles", {"metadata": {"name": "maps"}, "rules": granted})
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "maps"}
        await made(
            side, f"{roles}/rolebindings", {"metadata": {"name": "maps"}, "roleRef": reference, "subjects": [subject]}
        )
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


async def test_policies_and_bindings_are_kept_alike(bare: Both) -> None:
    """H12: with the same defaults; changed, listed and read back."""
    match = {"resourceRules": rules("pods"), "excludeResourceRules": rules("pods", resourceNames=["x"])}
    spec = {"matchConstraints": match, "validations": [{"expression": "true"}]}

    async def observe(side: Side) -> Any:
        async with acting(side, spec) as answers:
            name = f"{side.namespace}-policy"
            place = f"{_ROOT}/validatingadmissionpolicies/{name}"
            changed = await patched(side, place, {"spec": {"failurePolicy": "Ignore"}})
            status = await side.call("GET", f"{place}/status")
            return [short(each) for each in (*answers, changed, status)]

    answers = await bare.same(observe)
    assert [code for code, _ in answers] == [201, 201, 200, 200]
