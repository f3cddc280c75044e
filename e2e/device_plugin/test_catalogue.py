"""The table of promises keeps its word."""

from __future__ import annotations

from pathlib import Path

import pytest

from e2e.device_plugin import catalogue
from e2e.device_plugin.catalogue import IDS, Promise


def test_every_promise_is_proved_by_tests_that_are_there() -> None:
    """DP-001 to DP-023 and PR-001 to PR-006, each once."""
    assert catalogue.findings(catalogue.load()) == []


@pytest.mark.parametrize(
    ("rows", "finding"),
    [
        ([Promise(one, "x", ("e2e/device_plugin/test_catalogue.py::test_none",)) for one in IDS], "no test"),
        ([Promise(one, "x") for one in IDS], "nothing proves it"),
        ([Promise("DP-001", "x", ("e2e/none.py::test_none",))], "DP-002: 0 rows"),
        ([Promise("DP-099", "x", ("e2e/none.py::test_none",))], "DP-099: no such id"),
    ],
    ids=["test", "proof", "missing", "unknown"],
)
def test_a_table_that_proves_nothing_is_found(rows: list[Promise], finding: str) -> None:
    """The check of the table can fail."""
    assert any(finding in found for found in catalogue.findings(rows))


def test_a_promise_is_as_good_as_its_worst_test() -> None:
    """Parameters count, and so does what did not run."""
    row = Promise("DP-001", "x", ("e/test_a.py::test_one", "e/test_a.py::test_two"))

    assert catalogue.result(row, {}) == "not in this run"
    assert catalogue.result(row, {"e/test_a.py::test_one[a]": "passed"}) == "passed (1 of 2 tests)"
    outcomes = {
        "e/test_a.py::test_one[a]": "passed",
        "e/test_a.py::test_one[b]": "failed",
        "e/test_a.py::test_two": "passed",
    }
    assert catalogue.result(row, outcomes) == "failed (2 of 2 tests)"


def test_a_row_of_another_form_is_an_error(tmp_path: Path) -> None:
    """A typo does not pass for an empty row."""
    (tmp_path / "t.yaml").write_text("- {id: DP-001, promise: x, provedby: []}")
    with pytest.raises(ValueError, match="proved_by"):
        catalogue.load(tmp_path / "t.yaml")
