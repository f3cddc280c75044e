"""Promises of e2e.report.pages."""

from __future__ import annotations

import json

import pytest

from e2e.report.pages import from_json, to_json, to_markdown
from e2e.report.verdict_table import Case, Column, Table, Verdict

PASSED = Verdict("passed")
TABLE = Table(
    "0123456789ab",
    "gpushare",
    {"embedded": Column("v1.36.3", "2026-01-02T03:04:05Z"), "kind": Column("v1.36.3", "2026-01-02T04:04:05Z")},
    {
        "e2e/a.py::test_one": Case(("DP-001",), {"embedded": PASSED, "kind": Verdict("skipped", "no | here <b>")}),
        "e2e/a.py::test_two[x]": Case((), {"embedded": PASSED, "kind": PASSED}),
        "e2e/a.py::test_two[y::z]": Case((), {"embedded": Verdict("failed", "broke"), "kind": PASSED}),
        "e2e/b.py::test_three[1]": Case((), {"embedded": PASSED}),
        "e2e/b.py::test_three[2]": Case((), {"embedded": PASSED, "kind": Verdict("skipped", "no | here <b>")}),
    },
)
PROMISES = {"DP-001": ("it serves", ()), "DP-002": ("it lists", ("e2e/b.py::test_three", "e2e/b.py::test_never"))}


def rows(text: str) -> dict[str, list[str]]:
    """The rows of all tables by their first cell."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return {
        cells[0]: cells[1:] for cells in ([cell.strip() for cell in line.strip("|").split(" | ")] for line in lines)
    }


def test_json_is_read_back_as_it_was() -> None:
    """Programs and later runs read it."""
    assert from_json(to_json(TABLE)) == TABLE


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"form": 2}', to_json(TABLE).replace('"outcome"', '"result"')])
def test_what_is_no_table_is_an_error(text: str) -> None:
    """One kind of error, whatever is wrong with it."""
    with pytest.raises(ValueError, match="not a table of verdicts"):
        from_json(text)


def test_the_page_says_of_what_it_is() -> None:
    """Sources, target, and for each cluster its release and when it ran."""
    text = to_markdown(TABLE, PROMISES)

    assert text.startswith("# Verdicts: gpushare at 0123456789ab\n")
    assert rows(text)["embedded"] == ["v1.36.3", "2026-01-02T03:04:05Z", "4", "0", "1", "0", "0"]
    assert rows(text)["controlplane"] == ["", "not run", "0", "0", "0", "0", "5"]


def test_each_case_is_a_row_with_a_cell_for_each_cluster() -> None:
    """Parameters are counted, a case that did not run shows it, reasons are notes."""
    found = rows(to_markdown(TABLE, PROMISES))

    assert found["test_one"] == ["DP-001", "passed", "not run", "skipped [1]"]
    assert found["test_two"] == ["", "failed (1 of 2) [2]", "not run", "passed (2)"]
    assert found["test_three"] == ["", "passed (2)", "not run", "skipped (1 of 2) [1]"]


def test_notes_are_the_reasons_each_once_and_harmless() -> None:
    """A reason ends no cell and begins no tag."""
    text = to_markdown(TABLE, PROMISES)

    assert text.endswith("## Notes\n\n1. no \\| here &lt;b>\n2. broke\n")


def test_a_promise_is_as_good_as_its_proofs() -> None:
    """By its markers or by the table of promises; a proof that ran nowhere is counted as missing."""
    found = rows(to_markdown(TABLE, PROMISES))

    assert found["DP-001"] == ["it serves", "passed", "not run", "skipped [1]"]
    assert found["DP-002"] == ["it lists", "passed (2 of 3)", "not run", "skipped (1 of 3) [1]"]


def test_an_id_without_a_text_is_shown_too() -> None:
    """A run of other sources may know more of them."""
    case = Case(("E2E-002",), {"kind": PASSED})

    assert rows(to_markdown(Table("c", "t", {}, {"e2e/a.py::test_x": case}), {}))["E2E-002"] == [
        "",
        "not run",
        "not run",
        "passed",
    ]


def test_no_notes_no_heading() -> None:
    """A table without notes has no heading for them, and its JSON has the number of its form."""
    table = Table("c", "t", {}, {"e2e/a.py::test_x": Case((), {"kind": PASSED})})

    assert "Notes" not in to_markdown(table, {})
    assert json.loads(to_json(table))["form"] == 1
