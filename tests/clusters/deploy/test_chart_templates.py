"""Promises of clusters.deploy.chart_templates."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from clusters.deploy import chart_templates
from clusters.deploy.chart_templates import OVERLAYS, TEMPLATES, Either, When, parts, templates, value_of
from tests.clusters.deploy.reading import COMPONENTS

CHART = TEMPLATES.parent
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())


def test_the_chart_is_what_its_sources_say() -> None:
    """Those templates alone, beside the two that are written by hand."""
    found = {path.name: path.read_text() for path in TEMPLATES.iterdir()}
    by_hand = {name: found.pop(name) for name in ("NOTES.txt", "refusals.yaml")}

    assert found == templates()
    assert not [name for name, text in by_hand.items() if "make generate" in text]


def test_each_component_has_a_value_that_is_off() -> None:
    """In the values, and in their schema, which refuses others."""
    off = {value_of(name): False for name in COMPONENTS}
    schema = json.loads((CHART / "values.schema.json").read_text())["properties"]

    assert VALUES["components"] == off
    assert schema.keys() >= VALUES.keys()
    for name in ("components", "overlays"):
        assert schema[name]["properties"].keys() == VALUES[name].keys()
        assert schema[name]["additionalProperties"] is False
    assert VALUES["overlays"] == {value_of(name): False for name in OVERLAYS}
    conditions = {word.strip("()") for part in parts() for word in part.condition.split()}
    assert {f".Values.components.{name}" for name in off} < conditions


def test_a_form_switches_on_what_it_includes() -> None:
    """As its kustomization does."""
    conditions = {part.folder.name: part.condition for part in parts()}

    assert conditions["second-scheduler"] == "(or .Values.overlays.secondScheduler .Values.overlays.openshift)"
    assert conditions["without-policies"] == "(or .Values.components.withoutPolicies .Values.overlays.kubeadmOld)"
    assert conditions["openshift"] == ".Values.overlays.openshift"
    assert conditions["base"] == ""


@pytest.mark.parametrize(
    ("operation", "after"),
    [
        ({"op": "add", "path": "/args/-", "value": "-b"}, {"args": ["-a", When("c", "-b")]}),
        ({"op": "add", "path": "/hostPID", "value": True}, {"args": ["-a"], "hostPID": When("c", True)}),
        ({"op": "replace", "path": "/args/0", "value": "-b"}, {"args": [Either("c", "-b", "-a")]}),
        ({"op": "remove", "path": "/args"}, {"args": When("(not c)", ["-a"])}),
        ({"op": "test", "path": "/args/0", "value": "-a"}, {"args": ["-a"]}),
    ],
    ids=lambda value: value.get("op"),
)
def test_a_patch_is_a_condition(operation: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    """Each operation that a component uses."""
    tree = {"args": ["-a"]}
    chart_templates.apply(tree, operation, "c")

    assert tree == after


def test_the_same_patch_of_two_components_is_one_field() -> None:
    """Under the condition of either."""
    tree: dict[str, Any] = {}
    for condition in ("a", "b"):
        chart_templates.apply(tree, {"op": "add", "path": "/hostPID", "value": True}, condition)

    assert tree == {"hostPID": When("(or a b)", True)}
    with pytest.raises(ValueError, match="hostPID"):
        chart_templates.apply(tree, {"op": "add", "path": "/hostPID", "value": False}, "c")


def test_a_patch_that_a_chart_cannot_express_is_refused() -> None:
    """It would be lost without a trace."""
    with pytest.raises(ValueError, match="copy"):
        chart_templates.apply({"a": 1}, {"op": "copy", "from": "/a", "path": "/b"}, "c")


def test_text_that_helm_would_run_stays_text() -> None:
    """Prometheus and Grafana have the same braces."""
    assert '{{ "{{" }} $labels.node }}' in templates()["monitoring-alerts.yaml"]
