"""Promises of clusters.embedded.apiserver.label_selectors: the texts that are read, and the errors for the rest."""

from __future__ import annotations

import pytest

from clusters.embedded.apiserver.label_selectors import parse
from tests.clusters.embedded.apiserver.samples import refused


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("=x", "found '=', expected: !, identifier, or 'end of string'"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a=b=c", "found '=', expected: ',' or 'end of string'"),
        ("a,,b", "found ',', expected: identifier after ','"),
        ("a>b", "unable to parse requirement: values[0]: Invalid value"),
        ("a=-b", "unable to parse requirement: values[0][a]: Invalid value"),
        ("-a", "unable to parse requirement: <nil>: Invalid value"),
        ("!=a", "found '!=', expected: !, identifier, or 'end of string'"),
    ],
)
def test_what_cannot_be_read_is_reported(text: str, message: str) -> None:
    """400, with the expected token and its place."""
    assert refused(400, lambda: parse(text)).message.startswith(message)


@pytest.mark.parametrize(
    ("text", "selected"),
    [("a in (,x)", True), ("a in ()", True), ("a=", True), ("a notin (x)", True), ("in=x", False), ("! b , a", True)],
)
def test_empty_values_and_odd_names(text: str, selected: bool) -> None:
    """A value that is left out is an empty text; words of the grammar can be keys."""
    assert all(requirement({"a": ""}) for requirement in parse(text)) is selected
