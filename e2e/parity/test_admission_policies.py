"""Admission policies change and refuse the same requests on both, with the same code, reason and text."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from clusters.api.resources import resource_of
from clusters.api.waiting import eventually
from e2e import spec
from e2e.parity.parity_requests import (
    MEMORY,
    Object,
    ask,
    binding,
    compare,
    config_map,
    container,
    made,
    maps,
    pod,
    pods,
    short,
)
from e2e.parity.sides import Both, Side, account_token, stranger

_ROOT = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolic"
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_SLOTS = Path(__file__).parents[2] / "clusters" / "deploy" / "components" / "slots" / "gpu-slot-policy.yaml"
_SLOT = spec.RESOURCE_SLOT
# A label of no object but the one by which a case sees that its policy acts.
_PROBE = "policy-probe"
_PODS = ["pods", "pods/status", "pods/binding", "pods/eviction"]


def asking(name: str = "main", /, **limits: str) -> Object:
    """A container with limits of card memory and slots."""
    names = {"memory": MEMORY, "slot": _SLOT}
    return container(name, resources={"limits": {names[key]: amount for key, amount in limits.items()}})


# The policy must look at each container alone.
_SLOTTED: dict[str, Object] = {
    "other resources": {"containers": [container(resources={"limits": {"cpu": "1", "nvidia.com/gpu": "1"}})]},
    "some containers": {
        "containers": [asking("a", memory="3"), container("b"), asking("c", memory="20001"), container("d")]
    },
    "names two": {"containers": [asking(memory="3", slot="2"), container("b")]},
    "a slot without memory": {"containers": [asking(slot="1")]},
    "init and sidecar": {
        "initContainers": [asking("i", memory="5"), {**asking("s", memory="1"), "restartPolicy": "Always"}],
        "containers": [asking(memory="3")],
    },
    "no whole number": {"containers": [asking(memory="1.5")]},
}


@asynccontextmanager
async def slots(side: Side) -> AsyncIterator[None]:
    """The policy as shipped at work; afterwards it is gone, and no longer at work."""
    manifests = list(yaml.safe_load_all(_SLOTS.read_text()))
    probe = pod("probe", {"containers": [asking(memory="3")]})

    async def acts() -> bool:
        answer = await side.call("POST", pods(side), body=probe, params={"dryRun": "All"})
        return answer.code == 201 and _SLOT in answer.body["spec"]["containers"][0]["resources"]["limits"]

    answers = [await side.call("POST", resource_of(one).path(), body=one) for one in manifests]
    try:
        if answers[0].code == 404:
            pytest.skip(f"{side.name} is older than 1.36 and has no MutatingAdmissionPolicy")
        await eventually(acts, bool, f"{side.name}: the policy acts")
        yield
    finally:
        for one in manifests:
            await side.call("DELETE", resource_of(one).path(name=one["metadata"]["name"]))
        await eventually(acts, lambda found: not found, f"{side.name}: the policy acts no more")


async def test_the_policy_as_shipped_adds_the_same_to_the_same_pods(bare: Both) -> None:
    """Each container that asks for card memory and names no slot gets one; the policy is kept alike, with the same defaults."""
    asks = [ask("POST", "pods", pod(f"p{number}", fields), None) for number, fields in enumerate(_SLOTTED.values())]
    policy = ask("GET", "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies/gpushare-slot")
    answers = dict(zip(_SLOTTED, await compare(bare, *asks, policy, around=slots), strict=False))

    def found(name: str) -> list[Any]:
        parts = [*answers[name]["spec"].get("initContainers", []), *answers[name]["spec"]["containers"]]
        return [each["resources"].get("limits", {}).get(_SLOT) for each in parts]

    assert found("some containers") == ["1", None, "1", None]
    assert found("init and sidecar") == ["1", "1", "1"]
    assert found("names two") == ["2", None]


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
async def acting(side: Side, fields: Object, **binding_spec: Any) -> AsyncIterator[None]:
    """A policy with this spec at work in the case's namespace; afterwards it is gone."""
    here = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": side.namespace}}}
    # A policy beside it, which comes later, shows when both are known: the real server reads new ones once a second.
    probe = {
        "matchConstraints": {"resourceRules": rules("configmaps", operations=["CREATE"])},
        "validations": [{"expression": f"!has(object.metadata.labels) || !('{_PROBE}' in object.metadata.labels)"}],
    }
    policies = {f"{side.namespace}-policy": (fields, binding_spec), f"{side.namespace}-policy-probe": (probe, {})}

    async def acts() -> bool:
        body = config_map("probe", labels={_PROBE: ""})
        return (await side.call("POST", maps(side), body=body, params={"dryRun": "All"})).code == 422

    try:
        for name, (policy, more) in policies.items():
            bound = {"policyName": name, "validationActions": ["Deny"], "matchResources": here, **more}
            for end, content in (("ies", policy), ("ybindings", bound)):
                await made(side, _ROOT + end, {"metadata": {"name": name}, "spec": content})
        await eventually(acts, bool, f"{side.name}: the policy acts")
        yield
    finally:
        for name in policies:
            for end in ("ybindings", "ies"):
                await side.call("DELETE", f"{_ROOT}{end}/{name}")
        await eventually(acts, lambda found: not found, f"{side.name}: the policy acts no more")


def annotated(name: str, **annotations: str) -> Object:
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
    validations = [
        deny_if(f"'number' in annotations && annotations['number'] == '{at}'", **kind)
        for at, (kind, _) in enumerate(kinds)
    ]
    fields = {"matchConstraints": {"resourceRules": rules("pods")}, "validations": validations}
    asks = [ask("POST", "pods", annotated(f"p{at}", number=str(at)), code) for at, (_, code) in enumerate(kinds)]
    await compare(bare, *asks, ask("POST", "pods", pod("fine")), around=lambda side: acting(side, fields))


# The parts of a request that expressions know.
_TOLD = " + ' ' + ".join(
    [
        "request.operation",
        "(has(request.name) ? request.name : '-')",
        "request.namespace",
        "(has(request.subResource) ? request.subResource : '-')",
        "request.kind.group + '/' + request.kind.version + '/' + request.kind.kind",
        "request.resource.group + '/' + request.resource.version + '/' + request.resource.resource",
        "(request.dryRun ? 'dry' : 'wet')",
        "(object == null ? '-' : object.kind + object.metadata.name)",
        "(oldObject == null ? '-' : oldObject.kind + oldObject.metadata.name)",
        "namespaceObject.metadata.name",
    ]
)


async def test_every_way_of_writing_a_pod_is_judged(bare: Both) -> None:
    """A policy judges each way of writing a pod, dry runs and deletions of all included, and knows what is written."""
    fields = {
        "matchConstraints": {"resourceRules": rules(*_PODS)},
        "validations": [deny_if("'deny' in annotations", messageExpression=_TOLD, reason="Forbidden")],
        # The object that is there already must not be in the way of what changes it.
        "matchConditions": [{"name": "new", "expression": "object != null || oldObject.metadata.name != 'p'"}],
    }
    deny: Object = {"metadata": {"annotations": {"deny": "yes"}}}
    denied: Object = {"annotations": {"deny": "yes"}}
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p", **denied}}
    await compare(
        bare,
        ask("POST", "pods", pod("p")),
        ask("POST", "pods", annotated("kept", deny="yes")),
        ask("POST", "pods", annotated("kept-too", deny="yes")),
        ask("POST", "pods", annotated("new", deny="yes"), 403),
        ask("POST", "pods", annotated("new", deny="yes"), 403, dryRun="All"),
        ask("PUT", "pods/p", {"${object:0}": deny}, 403),
        ask("MERGE", "pods/p", deny, 403),
        ask("STRATEGIC", "pods/p", deny, 403),
        ask("JSON", "pods/p", [{"op": "add", "path": "/metadata/annotations", "value": {"deny": "yes"}}], 403),
        ask("MERGE", "pods/p/status", deny, 403),
        ask("MERGE", "pods/p/status", {"status": {"message": "fine"}}),
        ask("MERGE", "pods/p", {"metadata": {"labels": {"a": "b"}}}),
        ask("POST", "pods/p/binding", binding("p", **denied), 403),
        ask("POST", "pods/none/binding", binding("none", **denied), 403),
        ask("POST", "pods/p/eviction", eviction, 403),
        ask("DELETE", "pods/kept", code=403),
        ask("DELETE", "pods", code=403, fieldSelector="metadata.name=kept-too"),
        ask("DELETE", "pods/none", code=None),
        ask("POST", "pods/p/binding", binding("p", annotations={"fine": "yes"}), None),
        around=lambda side: acting(side, fields),
        before=3,
    )


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

    def at_work(side: Side) -> AbstractAsyncContextManager[object]:
        here = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": side.namespace}}}
        condition = {"name": "here", "expression": f"has(request.namespace) && request.namespace == '{side.namespace}'"}
        no = [{"expression": "false", "message": "no"}]
        more = {key: {**here, **value} if key == "matchResources" else value for key, value in bound.items()}
        return acting(side, {"matchConstraints": match, "validations": no, "matchConditions": [condition]}, **more)

    await compare(
        bare,
        ask("POST", "pods", pod("x"), 201 if what in ("left out", "only a warning") else None),
        ask("POST", "pods", pod("y", labels={"a": "b"}), None),
        ask("POST", "configmaps", config_map("c"), 422 if what == "left out" else None),
        ask("MERGE", "pods/y", {"metadata": {"labels": {"a": None}}}, None),
        ask("MERGE", "pods/x/status", {"status": {"message": "m"}}, None),
        ask("DELETE", "pods/x", code=None),
        ask("DELETE", "pods/y", code=None),
        ask("DELETE", "configmaps/c", code=None),
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
@pytest.mark.parametrize("one", _FAILING, ids=range(len(_FAILING)))
async def test_expressions_that_fail(bare: Both, one: tuple[Object, int], failure: str) -> None:
    """An expression that fails refuses the request or is passed over, as the policy's failurePolicy demands."""
    whole = {"matchConstraints": {"resourceRules": rules("pods")}, "failurePolicy": failure, **one[0]}
    tried = ask("POST", "pods", annotated("p", some="y"), one[1] if failure == "Fail" else 201, dryRun="All")
    await compare(bare, tried, around=lambda side: acting(side, whole))


async def test_variables_and_the_authorizer(both: Both) -> None:
    """Expressions share variables, and can exempt an account by a right on a resource that need not exist."""
    check = "authorizer.group('example.com').resource('things').namespace(request.namespace)"
    fields = {
        "matchConstraints": {"resourceRules": rules("pods")},
        "variables": [
            {
                "name": "asked",
                "expression": "has(object.metadata.annotations) ? object.metadata.annotations['right'] : ''",
            },
            {"name": "may", "expression": f"variables.asked == '' || {check}.check(variables.asked).allowed()"},
        ],
        "validations": [
            {"expression": "variables.may", "messageExpression": "'no right to ' + variables.asked"},
            {"expression": f"{check}.subresource('parts').name('x').check('get').allowed()", "message": "no parts"},
            {"expression": "authorizer.requestResource.check('update').allowed()", "message": "no update"},
        ],
    }
    granted = [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]},
        {"apiGroups": ["example.com"], "resources": ["things"], "verbs": ["override"]},
        {"apiGroups": ["example.com"], "resources": ["things/parts"], "resourceNames": ["x"], "verbs": ["get"]},
    ]

    async def observe(side: Side) -> Any:
        token = await account_token(side, "bot")
        roles = f"{_RBAC}/namespaces/{side.namespace}"
        await made(side, f"{roles}/roles", {"metadata": {"name": "r"}, "rules": granted})
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}
        subject = {"kind": "ServiceAccount", "name": "bot", "namespace": side.namespace}
        bound = {"metadata": {"name": "r"}, "roleRef": reference, "subjects": [subject]}
        await made(side, f"{roles}/rolebindings", bound)
        async with acting(side, fields), stranger(side, token=token) as bot:
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
