"""Promises of the forms of an answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from gpushare import answer_forms

HEAD = {"apiVersion": "v1", "kind": "K"}


def test_a_table_is_as_kubectls() -> None:
    """Columns are three blanks apart, and no line ends in one; without rows there is no header."""
    rows = [("a", 10), ("longer", "")]

    assert answer_forms.table(("NAME", "N"), rows) == "NAME     N\na        10\nlonger\n"
    assert answer_forms.table(("NAME", "N"), rows, headers=False) == "a        10\nlonger\n"
    assert answer_forms.table(("NAME", "N"), []) == ""


def test_a_document_is_the_answer() -> None:
    """JSON and YAML hold the same."""
    answer = {"pod": {"name": "ä"}}

    assert json.loads(answer_forms.document("json", answer)) == answer
    assert yaml.safe_load(answer_forms.document("yaml", answer)) == answer


@pytest.mark.parametrize("items", [[], [{"a": "1\n2", "b": []}], [{"a": 1}, {"b": {"c": [1, "ä"]}}]])
@pytest.mark.parametrize("tail", [{"warnings": []}, {"warnings": ["x", "y"], "more": {}}])
@pytest.mark.parametrize("form", ["json", "yaml"])
def test_a_long_document_is_the_same_text(form: str, items: list[Any], tail: dict[str, Any]) -> None:
    """Byte for byte as in one piece."""
    pieces = answer_forms.long_document(form, HEAD, "nodes", iter(items), tail)

    assert "".join(pieces) == answer_forms.document(form, HEAD | {"nodes": items} | tail)


def test_no_text_of_others_steers_the_terminal() -> None:
    """A cell stays on its line, without escape sequences; letters of any language stay."""
    assert answer_forms.table(("A",), [("x\x1b[31m\ny\u202eä",)]) == "A\nx [31m y ä\n"
