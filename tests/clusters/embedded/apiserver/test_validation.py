"""Promises of clusters.embedded.apiserver.validation and its field rules, through the writing verbs."""

from __future__ import annotations

from typing import Any

import pytest

from clusters.api.resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    EVENTS,
    EVENTS_V1,
)
from tests.clusters.embedded.apiserver.samples import Object, config_map, deployment, new_writes, refused

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


def test_an_invalid_workload_is_refused_with_the_field() -> None:
    """The kind is named with its group; e2e/parity has every rule."""
    body = deployment()
    body["spec"] |= {"replicas": -1, "selector": {"matchLabels": {"app": "other"}}}
    message = told(DEPLOYMENTS, body)

    assert message.startswith('Deployment.apps "d" is invalid: [spec.replicas: Invalid value: -1')
    assert "`selector` does not match template `labels`" in message


@pytest.mark.parametrize(
    ("metadata", "text"),
    [
        ({"labels": {"a": "b c"}}, "metadata.labels: Invalid value"),
        ({"labels": {"x" * 64: ""}}, "name part must be no more than 63 bytes"),
        ({"annotations": {"k": "x" * 262145}}, "metadata.annotations: Too long"),
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
