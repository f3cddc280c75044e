"""Promises of clusters.embedded.apiserver.expressions."""

from __future__ import annotations

from typing import Any

import pytest

from clusters.embedded.apiserver.expressions import ExpressionError, Scope, evaluate

POD = {"spec": {"containers": [{"name": "a", "resources": {"limits": {"x.io/y": "3"}}}, {"name": "b"}]}}


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("object.spec.containers.map(c, c.name)", ["a", "b"]),
        ('object.spec.containers.filter(c, has(c.resources) && "x.io/y" in c.resources.limits).map(c, c.name)', ["a"]),
        ("has(object.spec.initContainers) ? object.spec.initContainers : []", []),
        ("object.spec.containers.exists(c, c.name == 'b')", True),
        ("Object{spec: Object.spec{x: 1}}", {"spec": {"x": 1}}),
        (
            "Object{spec: Object.spec{containers: object.spec.containers.map(c, Object.spec.containers{name: c.name, "
            'resources: Object.spec.containers.resources{limits: {"x.io/z": "1"}}})}}',
            {"spec": {"containers": [{"name": name, "resources": {"limits": {"x.io/z": "1"}}} for name in "ab"]}},
        ),
    ],
)
def test_an_expression_has_its_value(expression: str, value: Any) -> None:
    """Messages are maps; macros, conditions and texts are CEL's."""
    assert evaluate(expression, {"object": POD}) == value


@pytest.mark.parametrize("expression", ["1 +", "object.nothing", "object.spec.foo()", "1 / 0", ")"])
def test_what_has_no_value_is_an_error_that_names_the_expression(expression: str) -> None:
    """No error of the library leaves the module."""
    with pytest.raises(ExpressionError) as failed:
        evaluate(expression, {"object": POD})

    assert str(failed.value).startswith(f"expression '{expression}' resulted in error: ")


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("object.?metadata.?labels.orValue({})", {}),
        ("object.?spec.containers[0].name.orValue('')", "a"),
        ("object.spec.containers[?7].?name.hasValue()", False),
        ("object.spec.containers.map(c, c.?resources.?limits[?'x.io/y'].orValue('0'))", ["3", "0"]),
        ("object.spec.containers[0].resources.limits.?nothing.orValue('none')", "none"),
        ("object.spec.?containers[0].name.value().size() // nothing.more", 1),
        ("'a,b'.split(',').map(x, x.upperAscii()).join('.?x')", "A.?xB"),
        ("sets.contains(['a', 'b'], ['a']) ? object.spec.containers.size() : 0", 2),
    ],
)
def test_what_kubernetes_adds_to_the_language_is_understood(expression: str, value: Any) -> None:
    """Optional selection and texts' functions, which policies are written with."""
    assert evaluate(expression, {"object": POD}) == value


def test_variables_are_evaluated_once_and_only_if_they_are_used() -> None:
    """One that fails is an error of the expression that comes to it."""
    asked: list[str] = []
    composed = {
        "a": "count('a')",
        "b": "variables.a + variables.a",
        "wrong": "object.nothing",
        "unused": "count('unused')",
        "itself": "variables.itself",
    }
    scope = Scope({"object": POD}, {"count": lambda name: asked.append(name) or len(asked)})
    scope.compose(composed)

    assert scope.evaluate("variables.b + variables.a") == 3
    assert asked == ["a"]
    assert scope.evaluate("true || variables.wrong") is True
    for name, why in (("wrong", "no such key: nothing"), ("itself", "")):
        with pytest.raises(ExpressionError, match=f'composited variable "{name}" fails to evaluate: {why}'):
            scope.evaluate(f"variables.{name} == 1")
    scope.compose({"a": "'another policy'"})
    assert scope.evaluate("variables.a") == "another policy"


def test_a_value_is_converted_only_if_an_expression_names_it() -> None:
    """A condition about the request costs nothing for a large object."""
    scope = Scope({"request": {"operation": "CREATE"}, "object": object()})
    assert scope.evaluate("request.operation") == "CREATE"
    with pytest.raises(ExpressionError):
        scope.evaluate("object == 1")


def test_fields_exist_whichever_expression_comes_first() -> None:
    """One that looks at the metadata, one at another field, one at all of it, and one at the old object that is null."""
    pod = {"metadata": {"name": "p"}, "spec": {"nodeName": "n"}, "status": {"phase": "Failed"}}
    scope = Scope({"object": pod, "oldObject": None})
    assert scope.evaluate("object.metadata.name") == "p"
    assert scope.evaluate("has(object.spec) && object.spec.nodeName == 'n' && object.metadata.name == 'p'") is True
    assert scope.evaluate("object.metadata.name + object.status.phase") == "pFailed"
    assert scope.evaluate("object") == pod
    assert scope.evaluate("oldObject == null") is True
    with pytest.raises(ExpressionError, match="no such overload"):
        scope.evaluate("oldObject.metadata.name")
