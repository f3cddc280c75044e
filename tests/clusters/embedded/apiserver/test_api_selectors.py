"""Promises of clusters.embedded.apiserver.api_selectors."""

from __future__ import annotations

from typing import Any

import pytest

from clusters.api.resources import PODS
from clusters.embedded.apiserver.api_selectors import field_selector, label_selector, matches_selector
from clusters.embedded.apiserver.refusals import RefusalError


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        ("", True),
        ("app=web", True),
        ("app==web", True),
        ("app!=web", False),
        ("other!=web", True),
        ("app in (web, db)", True),
        ("app in (db)", False),
        ("app notin (db),tier", True),
        ("!tier", False),
        ("!other", True),
        ("app=web,tier=front", True),
        ("app=web,tier=back", False),
        ("example.com/x=1", True),
        ("count>5", True),
        ("count<5", False),
    ],
)
def test_a_label_selector_selects(selector: str, selected: bool) -> None:
    """Equality and sets, a comma is AND, parentheses keep their commas."""
    labels = {"app": "web", "tier": "front", "example.com/x": "1", "count": "7"}

    assert label_selector(selector)({"metadata": {"labels": labels}}) is selected


@pytest.mark.parametrize("selector", ["a=b=c", "a in b", "=x", "a in (b", "a,,b", "a b"])
def test_a_label_selector_that_makes_no_sense_is_refused(selector: str) -> None:
    """400, never everything."""
    with pytest.raises(RefusalError, match="expected|requirement"):
        label_selector(selector)


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        ("metadata.name=p", True),
        ("spec.nodeName=n1", True),
        ("spec.nodeName!=n1", False),
        ("spec.nodeName=", False),
        ("status.phase=Running,spec.nodeName=n1", True),
        ("status.phase!=Failed,status.phase!=Succeeded", True),
        ("spec.hostNetwork=false", True),
        ("status.podIP=", True),
    ],
)
def test_a_field_selector_selects(selector: str, selected: bool) -> None:
    """The selectors of kubelets and kubectl; an absent field is an empty text."""
    pod: dict[str, Any] = {"metadata": {"name": "p"}, "spec": {"nodeName": "n1"}, "status": {"phase": "Running"}}

    assert field_selector(selector, PODS)(pod) is selected


@pytest.mark.parametrize(
    ("operator", "values", "selected"),
    [
        ("In", ["web"], True),
        ("NotIn", ["web"], False),
        ("Exists", None, True),
        ("DoesNotExist", None, False),
        ("?", None, False),
    ],
)
def test_a_selector_object_selects(operator: str, values: list[str] | None, selected: bool) -> None:
    """A selector with matchLabels and matchExpressions selects the objects that fulfil both."""
    selector = {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "app", "operator": operator, "values": values}]}

    assert matches_selector(selector, {"app": "web", "a": "b"}) is selected
