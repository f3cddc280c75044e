"""The tables of promises keep their word."""

from __future__ import annotations

from pathlib import Path

import pytest

from e2e.catalogue import Catalogue, Promise, report, result
from e2e.device_plugin.catalogue import CATALOGUE as DEVICE_PLUGIN
from e2e.extender.catalogue import CATALOGUE as EXTENDER

TABLE = Catalogue("two", Path("nowhere"), "e2e/none/", ("X-001", "X-002"))
HERE = "e2e/test_catalogue.py::test_a_promise_is_as_good_as_its_worst_test"


@pytest.mark.parametrize("catalogue", [DEVICE_PLUGIN, EXTENDER], ids=["device plugin", "extender"])
def test_every_promise_is_proved_by_tests_that_are_there(catalogue: Catalogue) -> None:
    """DP-001 to DP-023, PR-001 to PR-006, EXT-001 to EXT-038 and API-001 to API-012, each once."""
    assert catalogue.findings(catalogue.load()) == []


@pytest.mark.parametrize(
    ("rows", "finding"),
    [
        ([Promise(one, "x", ("e2e/test_catalogue.py::test_none",)) for one in TABLE.ids], "X-001: no test"),
        ([Promise(one, "x") for one in TABLE.ids], "X-001: nothing proves it"),
        ([Promise("X-001", "x", (HERE,), absent="y")], "X-001: absent, and yet proved"),
        ([Promise("X-001", "x", (HERE,))], "X-002: 0 rows"),
        ([Promise("X-001", "x", (HERE,))] * 2, "X-001: 2 rows"),
        ([Promise("X-099", "x", (HERE,))], "X-099: no such id"),
    ],
    ids=["test", "proof", "excuse", "missing", "doubled", "unknown"],
)
def test_a_table_that_proves_nothing_is_found(rows: list[Promise], finding: str) -> None:
    """The check of the table can fail."""
    assert any(finding in found for found in TABLE.findings(rows))


def test_what_nothing_can_prove_may_say_why() -> None:
    """A row without a proof is one with its reason, and the report shows it."""
    row = Promise("X-001", "x", absent="no such machine")

    assert TABLE.findings([row, Promise("X-002", "x", (HERE,))]) == []
    assert "absent: no such machine" in report([row], {})
    assert result(row, {HERE: "passed"}) == "no test"


def test_a_promise_is_as_good_as_its_worst_test() -> None:
    """Parameters count, and so does what did not run."""
    row = Promise("X-001", "x", ("e/test_a.py::test_one", "e/test_a.py::test_two"))

    assert result(row, {}) == "not in this run"
    assert result(row, {"e/test_a.py::test_one[a]": "passed"}) == "passed (1 of 2 tests)"
    outcomes = {
        "e/test_a.py::test_one[a]": "passed",
        "e/test_a.py::test_one[b]": "failed",
        "e/test_a.py::test_two": "passed",
    }
    assert result(row, outcomes) == "failed (2 of 2 tests)"


def test_a_row_of_another_form_is_an_error(tmp_path: Path) -> None:
    """A typo does not pass for an empty row."""
    (tmp_path / "t.yaml").write_text("- {id: X-001, promise: x, provedby: []}")
    with pytest.raises(ValueError, match="provedby"):
        TABLE.load(tmp_path / "t.yaml")
