"""Promises of clusters.deploy.chart_templates."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from clusters.deploy import chart_templates
from clusters.deploy.chart_templates import OVERLAYS, TEMPLATES, When, parts, value_of
from tests.clusters.deploy.reading import COMPONENTS

CHART = TEMPLATES.parent
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())


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
