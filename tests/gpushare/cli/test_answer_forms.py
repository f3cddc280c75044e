"""Promises of the forms of an answer."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime

import pytest
import yaml

from gpushare.cli import answer_forms


def test_a_table_is_as_kubectls() -> None:
    """Columns are three blanks apart, and no line ends in one; without rows there is no header."""
    rows = [("a", 10), ("longer", "")]

    assert answer_forms.table(("NAME", "N"), rows) == "NAME     N\na        10\nlonger\n"
    assert answer_forms.table(("NAME", "N"), rows, headers=False) == "a        10\nlonger\n"
    assert answer_forms.table(("NAME", "N"), []) == ""


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-2, "<invalid>"), (-1, "0s"), (0, "0s"), (119, "119s"), (120, "2m"), (312, "5m12s"), (599, "9m59s"), (629, "10m"),
        (10_799, "179m"), (10_800, "3h"), (12_000, "3h20m"), (28_860, "8h"), (172_799, "47h"), (172_800, "2d"),
        (187_200, "2d4h"), (691_200, "8d"), (63_071_999, "729d"), (63_072_000, "2y"), (63_158_400, "2y1d"), (252_374_400, "8y"),
    ],
)  # fmt: skip
def test_an_age_is_as_kubectls(seconds: int, text: str) -> None:
    """Two units at most, and fewer the older it is."""
    now = 1_790_000_000
    when = datetime.fromtimestamp(now - seconds, UTC).isoformat().replace("+00:00", "Z")

    assert answer_forms.age(when, now) == text
    assert answer_forms.age("", now) == "<unknown>"


def test_a_document_is_the_answer() -> None:
    """JSON and YAML hold the same."""
    answer = {"pod": {"name": "ä"}}

    assert json.loads(answer_forms.document("json", answer)) == answer
    assert yaml.safe_load(answer_forms.document("yaml", answer)) == answer


def test_no_text_of_others_steers_the_terminal() -> None:
    """A cell stays on its line, without escape sequences; letters of any language stay."""
    assert answer_forms.table(("A",), [("x\x1b[31m\ny\u202eä",)]) == "A\nx [31m y ä\n"


@pytest.mark.parametrize("form", ["json", "yaml"])
@pytest.mark.parametrize("text", ["\x1b[2J", "\x00\x9b", "\x7f", "\u202e", "\u200b\u2028", "\U000e0041", "a\nb\tä漢"])
def test_a_document_on_a_terminal_holds_the_same(form: str, text: str) -> None:
    """No character in it steers the terminal, and a program reads what was there."""
    out = io.StringIO()
    answer_forms.on_terminal(out).write(answer_forms.document(form, {"a": text}))

    assert all(line.isprintable() for line in out.getvalue().split("\n"))
    assert (json.loads if form == "json" else yaml.safe_load)(out.getvalue()) == {"a": text}
