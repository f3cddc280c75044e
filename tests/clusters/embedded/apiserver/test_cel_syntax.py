"""Promises of clusters.embedded.apiserver.cel_syntax."""

from __future__ import annotations

import pytest

from clusters.embedded.apiserver.cel_syntax import plain


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
    """The fields of Object messages become texts; words in strings, conditions and the expression's own maps do not."""
    assert plain(expression) == maps


@pytest.mark.parametrize(
    ("expression", "calls"),
    [
        ("a.?b", 'a.optionalField("b")'),
        ("a.?b.c", 'a.optionalField("b").optionalField("c")'),
        ("a.?b.c(d.e)", 'a.optionalField("b").c(d.e)'),
        ("a[?b[0]].c", 'a.optionalIndex(b[0]).optionalField("c")'),
        ("a.?b[c].orValue(d)", 'a.optionalField("b").optionalIndex(c).orValue(d)'),
        ("a.?b == c.d", 'a.optionalField("b") == c.d'),
        ("a ? b.c : d", "a ? b.c : d"),
        ("'''a.?b''' + \"a[?b\"", "'''a.?b''' + \"a[?b\""),
        ("a // b.?c\n+ d", "a  \n+ d"),
    ],
)
def test_optional_selections_become_calls(expression: str, calls: str) -> None:
    """To what follows them, too, up to the next call; not in strings or comments."""
    assert plain(expression) == calls
