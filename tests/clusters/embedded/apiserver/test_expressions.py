"""Promises of clusters.embedded.apiserver.expressions."""

from __future__ import annotations

from typing import Any

import pytest

from clusters.embedded.apiserver.expressions import ExpressionError, evaluate, without_messages

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


@pytest.mark.parametrize(
    ("expression", "maps"),
    [
        ("Object{a: b ? c : d}", '{"a": b ? c : d}'),
        ("Object{a: 1, b: [Object.b{c: 'x: y, {'}]}", '{"a": 1, "b": [{"c": \'x: y, {\'}]}'),
        ("Object{}", "{}"),
        ('{"Object{a: 1}": 2}', '{"Object{a: 1}": 2}'),
        ("{key: 1}", "{key: 1}"),
        ("MyObject{a: 1}", "MyObject{a: 1}"),
        ("Object{a : f(x)}", '{"a" : f(x)}'),
    ],
)
def test_only_the_fields_of_messages_become_texts(expression: str, maps: str) -> None:
    """Not words in strings, in conditions, or in maps of the expression's own."""
    assert without_messages(expression) == maps


@pytest.mark.parametrize("expression", ["1 +", "object.nothing", "object.spec.foo()", "1 / 0", ")"])
def test_what_has_no_value_is_an_error_that_names_the_expression(expression: str) -> None:
    """No error of the library leaves the module."""
    with pytest.raises(ExpressionError) as failed:
        evaluate(expression, {"object": POD})

    assert str(failed.value).startswith(expression)
