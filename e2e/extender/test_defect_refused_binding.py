"""D20: a bind that the API server refuses leaves nothing behind, whatever the extender wrote before."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest

from clusters.api.api_client import ApiError, Object
from clusters.api.resources import NAMESPACES, resource_of
from clusters.api.waiting import eventually
from e2e import spec
from e2e.checkers.extender_answers import is_refusal, refused_binds
from e2e.checkers.history import Asked
from e2e.checkers.judgement import judge
from e2e.extender.extender_under_test import ExtenderUnderTest

pytestmark = pytest.mark.stand_in_only("no kubelet has a part in it")

_VERSION: Final = "admissionregistration.k8s.io/v1"
_WORDS: Final = "no pod may be bound in this namespace"


@pytest.mark.promise("D20")
async def test_d20_a_refused_binding_leaves_no_annotation(stage: ExtenderUnderTest, name: str) -> None:
    """A policy that no extender can foresee refuses the Binding: then the pod names no card, and the next bind succeeds."""
    await stage.node(name, 14, 1)
    (pod,) = await stage.create(stage.pod("p", 9))
    async with _bindings_refused(stage):
        refused = await _bind(stage, pod, name)
        assert is_refusal(refused)

        async def left() -> list[str]:
            return list(map(str, judge([refused, await stage.observer.listed()], refused_binds)))

        await eventually(left, lambda found: not found, "no annotation of the refused pod names a card")
        await stage.used(name, 0)
    accepted = await _bind(stage, pod, name)

    assert not is_refusal(accepted), accepted
    assert (await stage.observer.pod("p"))["spec"]["nodeName"] == name
    await stage.used(name, 9)


async def _bind(stage: ExtenderUnderTest, pod: Object, node: str) -> Asked:
    """Order the pod onto the node; whichever status it is answered with."""
    metadata = pod["metadata"]
    order = {"PodName": metadata["name"], "PodNamespace": stage.namespace, "PodUID": metadata["uid"], "Node": node}
    answer = await stage.observer.post(spec.BIND, json.dumps(order))
    with contextlib.suppress(ValueError):
        return Asked(0.0, spec.BIND, order, answer.json(), answer.status_code)
    return Asked(0.0, spec.BIND, order, None, answer.status_code)


@contextlib.asynccontextmanager
async def _bindings_refused(stage: ExtenderUnderTest) -> AsyncIterator[None]:
    """An admission policy refuses each Binding in the namespace inside; then it does no longer."""
    name = f"{stage.namespace}-bindings"
    await stage.api.patch(NAMESPACES, stage.namespace, {"metadata": {"labels": {"case": name}}})
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/binding"]}
    policy: dict[str, Any] = {
        "matchConstraints": {"resourceRules": [rule], "namespaceSelector": {"matchLabels": {"case": name}}},
        "validations": [{"expression": "false", "message": _WORDS}],
    }
    made = [
        _object("ValidatingAdmissionPolicy", name, policy),
        _object("ValidatingAdmissionPolicyBinding", name, {"policyName": name, "validationActions": ["Deny"]}),
    ]
    for item in made:
        await stage.api.create(item)
    try:
        await eventually(lambda: _is_refused(stage), bool, "the policy acts")
        yield
    finally:
        for item in made:
            await stage.api.delete(resource_of(item), name)
    await eventually(lambda: _is_refused(stage), lambda refused: not refused, "the policy acts no longer")


def _object(kind: str, name: str, spec: dict[str, Any]) -> Object:
    return {"apiVersion": _VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}


async def _is_refused(stage: ExtenderUnderTest) -> bool:
    """Does the policy refuse the Binding of a pod that is not there? Without it there is no such pod."""
    try:
        await stage.observer.bind("nobody", "nowhere")
    except ApiError as error:
        return _WORDS in error.message
    return False
