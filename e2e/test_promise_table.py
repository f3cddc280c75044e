"""Promises of e2e.promises."""

from __future__ import annotations

from pathlib import Path

import pytest

from e2e.promises import Promise, findings, load, proofs, proofs_in, report, result

ONE, TWO = "e/test_a.py::test_one", "e/test_a.py::test_two"


def test_every_promise_is_proved_and_every_proof_is_of_one() -> None:
    """Each id of the table has a test with its marker, and each marker has an id of the table."""
    assert findings(load(), proofs()) == []


@pytest.mark.parametrize(
    ("rows", "proved", "finding"),
    [
        ([Promise("X-001", "x")], {}, "X-001: no test proves it"),
        ([], {"X-002": (ONE,)}, f"X-002: no such promise: {ONE}"),
    ],
    ids=["proof", "promise"],
)
def test_a_table_that_proves_nothing_is_found(
    rows: list[Promise], proved: dict[str, tuple[str, ...]], finding: str
) -> None:
    """The check of the table can fail."""
    assert findings(rows, proved) == [finding]


def test_markers_are_read_from_the_source() -> None:
    """Functions and methods have them, with several ids, beside other decorators."""
    source = """
@pytest.mark.promise("X-001", "X-002")
@pytest.mark.parametrize("n", [1])
async def test_a(n): pass

class TestB:
    @pytest.mark.promise("X-001")
    def test_c(self): pass

def test_d(): pass
"""
    assert [*proofs_in(source)] == [("X-001", "test_a"), ("X-002", "test_a"), ("X-001", "TestB::test_c")]


def test_a_promise_is_as_good_as_its_worst_test() -> None:
    """Parameters count, and a promise without a test in the run has no result."""
    row = Promise("X-001", "x", (ONE, TWO), not_imitated="y")
    outcomes = {f"{ONE}[a]": "passed", f"{ONE}[b]": "failed", TWO: "passed"}

    assert result(row, {}) == ""
    assert result(row, {f"{ONE}[a]": "passed", TWO: "skipped"}) == "passed (1 of 2 tests)"
    assert report([row, Promise("X-002", "x")], outcomes) == [
        "X-001 x: failed (2 of 2 tests)",
        "        not imitated: y",
    ]


@pytest.mark.parametrize("text", ["X-001: [x]", "{X-001: x, not_imitated: {X-002: y}}"])
def test_a_table_of_another_form_is_an_error(tmp_path: Path, text: str) -> None:
    """A typo does not pass for an empty row."""
    (tmp_path / "t.yaml").write_text(text)
    with pytest.raises(ValueError, match="expected a text"):
        load(tmp_path / "t.yaml")
