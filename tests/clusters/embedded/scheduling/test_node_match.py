"""Node selectors and node affinity in the embedded scheduler."""

from __future__ import annotations

from typing import Any

import pytest

from clusters.embedded.scheduling.node_match import accepts_node, requirement_holds, untolerated_taint
from tests.clusters.embedded.scheduling.scheduling_objects import make_node, make_pod

TAINT = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}


def affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


def by_name(*names: str) -> dict[str, Any]:
    return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": list(names)}]}


@pytest.mark.parametrize(
    ("operator", "values", "label", "holds"),
    [
        ("In", ["a", "b"], "b", True),
        ("In", ["a"], None, False),
        ("NotIn", ["a"], "a", False),
        ("NotIn", ["a"], None, True),
        ("Exists", [], "a", True),
        ("Exists", [], None, False),
        ("DoesNotExist", [], None, True),
        ("DoesNotExist", [], "a", False),
        ("Gt", ["5"], "6", True),
        ("Gt", ["5"], "5", False),
        ("Gt", ["5"], "x", False),
        ("Lt", ["5"], "-6", True),
        ("Lt", ["5"], None, False),
    ],
)
def test_requirement_of_each_operator(operator: str, values: list[str], label: str | None, holds: bool) -> None:
    """A missing label and a label that is no number are decided as Kubernetes does."""
    labels = {} if label is None else {"key": label}

    assert holds is requirement_holds({"key": "key", "operator": operator, "values": values}, labels)


def test_requirement_of_an_unknown_operator_is_an_error() -> None:
    """The error for an unknown operator names the operator."""
    with pytest.raises(ValueError, match="Near"):
        requirement_holds({"key": "key", "operator": "Near"}, {})


def test_accepts_node_by_selector_and_affinity() -> None:
    """Terms are alternatives, requirements of a term all hold, and an empty term matches nothing."""
    node = make_node("n1")

    assert accepts_node(make_pod(), node)
    assert accepts_node(make_pod(nodeSelector={"kubernetes.io/hostname": "n1"}), node)
    assert not accepts_node(make_pod(nodeSelector={"kubernetes.io/hostname": "n2"}), node)
    assert accepts_node(make_pod(affinity=affinity(by_name("n2"), by_name("n1"))), node)
    assert not accepts_node(make_pod(affinity=affinity({})), node)
    assert not accepts_node(make_pod(affinity=affinity()), node)
    missing = {"matchExpressions": [{"key": "gpu", "operator": "Exists"}], **by_name("n1")}
    assert not accepts_node(make_pod(affinity=affinity(missing)), node)


@pytest.mark.parametrize(
    ("tolerations", "kept_away"),
    [
        ([], True),
        ([{"key": "gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}], False),
        ([{"key": "gpu", "value": "yes"}], False),
        ([{"key": "gpu", "value": "no"}], True),
        ([{"key": "gpu", "operator": "Exists"}], False),
        ([{"operator": "Exists"}], False),
        ([{"key": "gpu", "operator": "Exists", "effect": "NoExecute"}], True),
        ([{"key": "other", "operator": "Exists"}], True),
    ],
)
def test_untolerated_taint(tolerations: list[dict[str, str]], kept_away: bool) -> None:
    """A toleration counts by key, operator, value and effect."""
    taint = untolerated_taint(make_pod(tolerations=tolerations), make_node(taints=[TAINT]))

    assert (TAINT if kept_away else None) == taint


def test_untolerated_taint_never_is_a_preference() -> None:
    """PreferNoSchedule keeps no pod away."""
    node = make_node(taints=[{**TAINT, "effect": "PreferNoSchedule"}])

    assert untolerated_taint(make_pod(), node) is None
