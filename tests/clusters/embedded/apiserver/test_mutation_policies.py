"""Promises of clusters.embedded.apiserver.mutation_policies, of the shipped policy and of others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from clusters.api.resources import CONFIG_MAPS, DEPLOYMENTS, PODS, resource_of
from clusters.embedded.apiserver.writes import Writes
from tests.clusters.embedded.apiserver.samples import config_map, deployment, new_writes, pod, refused

SHIPPED = Path(__file__).parents[4] / "clusters" / "deploy" / "components" / "slots" / "gpu-slot-policy.yaml"
MEMORY, SLOT = "aliyun.com/gpu-mem", "aliyun.com/gpu-slot"


def install(writes: Writes, **spec: Any) -> None:
    """The shipped policy with its binding; ``spec`` is laid over the policy's spec."""
    policy, binding = yaml.safe_load_all(SHIPPED.read_text())
    policy["spec"] |= spec
    for manifest in (policy, binding):
        writes.create(resource_of(manifest), "", manifest)


def mutation(expression: str) -> list[dict[str, Any]]:
    """A policy's mutations."""
    return [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}]


def limits(writes: Writes, **wants: Any) -> Any:
    """The limits that a pod's container has once it is created."""
    stored = writes.create(PODS, "default", pod(**wants)).item
    return stored["spec"]["containers"][0]["resources"].get("limits")


def test_the_shipped_policy_adds_a_slot_in_limits_and_requests() -> None:
    """To a container that asks for card memory; one that asks for something else is left alone."""
    writes = new_writes()
    install(writes)
    stored = writes.create(PODS, "default", pod(limits={MEMORY: "3"})).item["spec"]["containers"][0]

    assert stored["resources"] == {"limits": {MEMORY: "3", SLOT: "1"}, "requests": {MEMORY: "3", SLOT: "1"}}
    assert limits(writes, name="cpu", limits={"cpu": "1"}) == {"cpu": "1"}
    assert limits(writes, name="own", limits={MEMORY: "3", SLOT: "2"}) == {MEMORY: "3", SLOT: "2"}


def test_a_policy_acts_with_a_binding_only() -> None:
    """A policy acts only with a binding and on kinds that it names; a template's pods get their slot when they are made."""
    writes = new_writes()
    policy, binding = yaml.safe_load_all(SHIPPED.read_text())
    writes.create(resource_of(policy), "", policy)
    assert limits(writes, limits={MEMORY: "3"}) == {MEMORY: "3"}
    writes.create(resource_of(binding), "", binding)
    assert limits(writes, name="bound", limits={MEMORY: "3"}) == {MEMORY: "3", SLOT: "1"}

    template = deployment()
    template["spec"]["template"]["spec"]["containers"][0]["resources"] = {"limits": {MEMORY: "3"}}
    stored = writes.create(DEPLOYMENTS, "default", template).item["spec"]["template"]["spec"]["containers"][0]
    assert stored["resources"]["limits"] == {MEMORY: "3"}


@pytest.mark.parametrize(
    "spec",
    [
        {"mutations": mutation("Object{spec: nonsense}")},
        {"mutations": mutation("'text'")},
        {"mutations": mutation('Object{spec: Object.spec{containers: [{"image": "x"}]}}')},
        {"mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": "[]"}}]},
        {"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}},
        {"variables": [{"name": "a", "expression": "1"}]},
        {"matchConditions": [{"name": "a", "expression": "object.nothing"}]},
    ],
    ids=["no value", "no object", "no name", "JSON patch", "parameters", "variables", "condition"],
)
def test_a_policy_that_fails_is_ignored_or_refuses_as_it_says(spec: dict[str, Any]) -> None:
    """A part that we do not imitate counts as a failure: it must not look as if it did nothing."""
    writes = new_writes()
    install(writes, **spec)
    assert limits(writes, limits={MEMORY: "3"}) == {MEMORY: "3"}

    strict = new_writes()
    install(strict, **spec, failurePolicy="Fail")
    refusal = refused(403, lambda: strict.create(PODS, "default", pod(limits={MEMORY: "3"})))
    assert "policy 'gpushare-slot' denied request" in refusal.message


def test_what_a_policy_adds_to_other_kinds_is_there() -> None:
    """Policies are not about pods alone; and what a selector would leave out is a failure."""
    writes = new_writes()
    rules = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["v1"], "resources": ["configmaps"]}
    matches = {"resourceRules": [rules]}
    install(
        writes,
        matchConstraints=matches,
        matchConditions=[{"name": "ours", "expression": "request.namespace == 'default'"}],
        mutations=mutation('Object{data: {"added": namespaceObject.metadata.name}}'),
    )
    assert writes.create(CONFIG_MAPS, "default", config_map(own="1")).item["data"] == {"own": "1", "added": "default"}
    assert limits(writes, limits={MEMORY: "3"}) == {MEMORY: "3"}

    excluding = new_writes()
    install(excluding, matchConstraints={**matches, "excludeResourceRules": [rules]}, failurePolicy="Fail")
    assert excluding.create(CONFIG_MAPS, "default", config_map(own="1")).item["data"] == {"own": "1"}


def test_defaults_of_a_policy_are_filled_in() -> None:
    """Missing fields of a policy get the defaults that the real server fills in."""
    writes = new_writes()
    policy = next(yaml.safe_load_all(SHIPPED.read_text()))
    del policy["spec"]["failurePolicy"]
    spec = writes.create(resource_of(policy), "", policy).item["spec"]

    assert spec["failurePolicy"] == "Fail"
    assert spec["matchConstraints"]["matchPolicy"] == "Equivalent"
    assert spec["matchConstraints"]["resourceRules"][0]["scope"] == "*"
