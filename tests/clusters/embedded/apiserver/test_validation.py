"""Promises of clusters.embedded.apiserver.validation and its field rules, through the writing verbs."""

from __future__ import annotations

from typing import Any

import pytest

from clusters.resources import (
    CONFIG_MAPS,
    DAEMON_SETS,
    DEPLOYMENTS,
    EVENTS,
    EVENTS_V1,
    LEASES,
    NAMESPACES,
    NODES,
    STATEFUL_SETS,
)
from tests.clusters.embedded.apiserver.samples import Object, config_map, deployment, new_writes, node, refused

EVENT: Object = {
    "metadata": {"name": "e"},
    "eventTime": "2026-01-02T03:04:05.000000Z",
    "reportingController": "example.com/x",
    "reportingInstance": "x-1",
    "action": "Held",
    "reason": "NoCard",
    "type": "Warning",
    "note": "why",
    "regarding": {"kind": "Pod", "namespace": "default", "name": "p"},
}


def told(resource: Any, body: Object, namespace: str = "default") -> str:
    """The texts of the refusal."""
    where = namespace if resource.namespaced else ""
    return refused(422, lambda: new_writes().create(resource, where, body)).message


def workload(**spec: Any) -> Object:
    """A Deployment with other fields in its spec."""
    body = deployment()
    body["spec"] |= spec
    return body


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (workload(selector={}), "spec.selector: Invalid value: {}: empty selector is invalid"),
        (workload(selector={"matchLabels": {"app": "other"}}), "`selector` does not match template `labels`"),
        (workload(replicas=-1), "spec.replicas: Invalid value: -1"),
        (workload(strategy={"type": "Fast"}), 'spec.strategy: Unsupported value: {"Type":"Fast"'),
        (workload(template={"metadata": {"labels": {"app": "d"}}}), "spec.template.spec.containers: Required value"),
    ],
)
def test_an_invalid_workload_is_refused_with_the_field(body: Object, text: str) -> None:
    """In the words of the API; the kind is named with its group."""
    message = told(DEPLOYMENTS, body)

    assert text in message
    assert message.startswith('Deployment.apps "d" is invalid: ')


def test_a_templates_pods_are_always_restarted() -> None:
    """Deployments run for ever."""
    body = deployment()
    body["spec"]["template"]["spec"]["restartPolicy"] = "Never"

    assert 'spec.template.spec.restartPolicy: Unsupported value: "Never"' in told(DEPLOYMENTS, body)


def test_strategies_are_each_kinds_own() -> None:
    """OnDelete belongs to StatefulSets and DaemonSets."""
    body = {**deployment(), "kind": "StatefulSet"}
    body["spec"]["podManagementPolicy"] = "Chaos"
    assert "spec.podManagementPolicy: Invalid value" in told(STATEFUL_SETS, body)
    body = {**deployment(), "kind": "DaemonSet"}
    body["spec"]["updateStrategy"] = {"type": "Recreate"}
    assert "spec.updateStrategy: Unsupported value" in told(DAEMON_SETS, body)


def test_a_selector_does_not_change() -> None:
    """422 field is immutable."""
    writes = new_writes()
    writes.create(DEPLOYMENTS, "default", deployment())
    labels = {"app": "d", "more": "x"}

    def change(item: Any) -> Any:
        item["spec"]["selector"]["matchLabels"] = labels
        item["spec"]["template"]["metadata"]["labels"] = labels
        return item

    assert "field is immutable" in refused(422, lambda: writes.patch(DEPLOYMENTS, "default", "d", change)).message


@pytest.mark.parametrize(
    ("metadata", "text"),
    [
        ({"labels": {"a b": "c"}}, "metadata.labels: Invalid value"),
        ({"labels": {"a": "b c"}}, "a valid label must be an empty string"),
        ({"labels": {"a": "x" * 64}}, "must be no more than 63 bytes"),
        ({"labels": {"x" * 64: ""}}, "name part must be no more than 63 bytes"),
        ({"labels": {"/a": "b"}}, "prefix part"),
        ({"annotations": {"k": "x" * 262145}}, "metadata.annotations: Too long"),
        ({"annotations": {"a/b/c": ""}}, "metadata.annotations: Invalid value"),
        ({"ownerReferences": [{"name": "x"}]}, "metadata.ownerReferences.uid: Invalid value"),
    ],
)
def test_metadata_is_checked(metadata: Object, text: str) -> None:
    """Names of every kind."""
    body = config_map()
    body["metadata"] |= metadata

    assert text in told(CONFIG_MAPS, body)


def test_our_annotations_are_names() -> None:
    """Capitals and underscores, as upstream has them."""
    body = config_map()
    body["metadata"]["annotations"] = {"ALIYUN_COM_GPU_MEM_IDX": "0", "scheduler.framework.gpushare.allocation": "{}"}

    assert new_writes().create(CONFIG_MAPS, "default", body)


def test_a_namespaces_name_is_a_label() -> None:
    """No dots."""
    assert "metadata.name" in told(NAMESPACES, {"metadata": {"name": "a.b"}})


def test_a_taint_needs_key_and_effect() -> None:
    """As kubectl taint writes them."""
    assert "metadata.taints[0].effect: Required value" in told(NODES, {**node(), "spec": {"taints": [{"key": "a"}]}})


@pytest.mark.parametrize("spec", [{"leaseDurationSeconds": 0}, {"leaseTransitions": -1}], ids=str)
def test_a_lease_is_checked(spec: Object) -> None:
    """Durations are positive."""
    assert f"spec.{next(iter(spec))}" in told(LEASES, {"metadata": {"name": "l"}, "spec": spec})


@pytest.mark.promise("API-010")
@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"eventTime": None}, "eventTime"),
        ({"reportingController": ""}, "reportingController"),
        ({"action": "x" * 129}, "action"),
        ({"reason": None}, "reason"),
        ({"type": "Bad"}, "type"),
        ({"note": "ä" * 513}, "message"),
        ({"series": {"count": 1}}, "series.count"),
        ({"series": {"count": "many"}}, "series.count"),
        ({"deprecatedCount": 1}, "count"),
    ],
    ids=str,
)
def test_the_newer_events_are_strict(change: Object, field: str) -> None:
    """An event of events.k8s.io with a field out of its bounds is refused, and the refusal names the field."""
    assert f"{field}: " in told(EVENTS_V1, {**EVENT, **change})


def test_events_that_make_sense_are_taken() -> None:
    """Strict, lenient, and about an object of the whole cluster."""
    writes = new_writes()
    about_node = {"metadata": {"name": "n"}, "involvedObject": {"kind": "Node", "name": "n"}}
    writes.create(EVENTS_V1, "default", EVENT)
    writes.create(EVENTS, "default", about_node)
    assert "involvedObject.namespace" in told(EVENTS, {"metadata": {"name": "e"}, "involvedObject": {"namespace": "x"}})

    def reword(item: Any) -> Any:
        return {**item, "note": "other"}

    refused(422, lambda: writes.patch(EVENTS_V1, "default", "e", reword))
