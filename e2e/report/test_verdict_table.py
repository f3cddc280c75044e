"""Promises of e2e.report.verdict_table."""

from __future__ import annotations

import pytest

from e2e.promises import Promise
from e2e.report.promise_verdicts import judged_musts, of_column, of_promise, word_of
from e2e.report.verdict_table import Case, Column, Outcome, Table, Verdict, columns_of, counts, merged, troubles

PASSED, FAILED = Verdict("passed"), Verdict("failed", "why")
A, B = "e2e/a.py::test_a", "e2e/a.py::test_b[1]"


def table(
    cluster: str, release: str = "v1.36.3", commit: str = "c1", target: str = "t", date: str = "d", **cases: Verdict
) -> Table:
    """A run on one cluster; cases by their names here."""
    names = {"a": A, "b": B}
    column = Column(target, cluster, release, date)
    rows = {names[name]: Case(("DP-001",), {column.name: verdict}) for name, verdict in cases.items()}
    return Table(commit, {column.name: column}, rows)


def test_the_first_run_is_the_table() -> None:
    """The first run is the table, because there is no other table to merge it with."""
    run = table("kind", a=PASSED)

    assert merged(None, run) is run


def test_another_cluster_gets_a_column_of_its_own() -> None:
    """The results of the first run stay."""
    both = merged(table("embedded", a=PASSED, b=FAILED), table("kind", a=FAILED))

    assert both.cases == {
        A: Case(("DP-001",), {"t on embedded": PASSED, "t on kind": FAILED}),
        B: Case(("DP-001",), {"t on embedded": FAILED}),
    }
    assert set(both.columns) == {"t on embedded", "t on kind"}


def test_a_run_of_one_case_replaces_that_cell_alone() -> None:
    """A later run may be a part of the suite; its date becomes the column's."""
    later = merged(table("kind", a=FAILED, b=PASSED, date="d1"), table("kind", a=PASSED, date="d2"))

    assert {name: case.verdicts["t on kind"] for name, case in later.cases.items()} == {A: PASSED, B: PASSED}
    assert later.columns == {"t on kind": Column("t", "kind", "v1.36.3", "d2")}


def test_nothing_stays_of_other_sources() -> None:
    """A table is of one state of the sources."""
    run = table("embedded", a=PASSED, commit="c2")

    assert merged(table("kind", b=PASSED), run) == run


def test_another_target_gets_a_column_of_its_own() -> None:
    """The matrix is of promises by targets and clusters."""
    both = merged(table("kind", a=PASSED), table("kind", a=FAILED, target="other"))

    assert both.cases == {A: Case(("DP-001",), {"t on kind": PASSED, "other on kind": FAILED})}


def test_a_column_begins_again_with_another_minor() -> None:
    """1.30 shows nothing of 1.36; the other columns stay."""
    before = merged(table("embedded", b=PASSED), table("controlplane", "v1.36.3", a=PASSED, b=PASSED))
    after = merged(before, table("controlplane", "v1.30.14", a=FAILED))

    assert after.cases[A].verdicts == {"t on controlplane": FAILED}
    assert after.cases[B].verdicts == {"t on embedded": PASSED}


@pytest.mark.parametrize(
    ("first", "second"), [("v1.36.3", "1.36"), ("1.36", "v1.36.3"), ("v1.36.3", ""), ("", "v1.36.3")]
)
def test_a_run_that_asked_no_api_server_goes_on_with_the_column(first: str, second: str) -> None:
    """The exact release stays known."""
    both = merged(table("embedded", first, a=PASSED), table("embedded", second, b=PASSED))

    assert both.columns["t on embedded"].kubernetes == "v1.36.3"
    assert set(both.cases) == {A, B}


def test_counts_are_of_what_ran() -> None:
    """A column that has shown nothing has no numbers."""
    both = merged(table("embedded", a=PASSED, b=Verdict("skipped", "x")), table("kind", a=FAILED))

    assert counts(both, "t on embedded") == {"passed": 1, "skipped": 1}
    assert counts(both, "t on kind") == {"failed": 1}
    assert counts(both, "t on controlplane") == {}


def test_columns_are_ordered_by_target_and_then_to_the_real() -> None:
    """Other clusters come last."""
    names = [("b", "embedded"), ("a", "existing"), ("a", "kind"), ("a", "embedded")]
    columns = {f"{target} on {cluster}": Column(target, cluster, "", "") for target, cluster in names}

    assert columns_of(Table("c", columns)) == ["a on embedded", "a on kind", "a on existing", "b on embedded"]


def test_troubles_are_failures_and_errors_column_by_column() -> None:
    """A case that was skipped is none."""
    both = merged(table("kind", a=Verdict("error"), b=Verdict("skipped")), table("embedded", a=PASSED, b=FAILED))

    assert [(column, name) for column, name, *_ in troubles(both)] == [("t on embedded", B), ("t on kind", A)]


@pytest.mark.parametrize(
    ("outcomes", "word"),
    [
        ({"passed"}, "pass"),
        ({"passed", "failed", "error"}, "fail"),
        ({"passed", "error"}, "unknown"),
        ({"passed", "skipped"}, "partial"),
        ({"passed", "not applicable"}, "partial"),
        ({"not applicable"}, "not applicable"),
        ({"not applicable", "skipped"}, "unknown"),
        (set(), "unknown"),
    ],
)
def test_a_promise_has_passed_only_if_its_cases_have(outcomes: set[Outcome], word: str) -> None:
    """A promise that no case has shown is unknown, and one that crashes its case is, too."""
    assert word_of(outcomes) == word


@pytest.mark.parametrize(
    ("cases", "text"),
    [
        ({"a": PASSED, "b": Verdict("not applicable")}, "pass: 1 passed, 1 not applicable"),
        ({"a": PASSED, "b": Verdict("skipped")}, "partial: 1 passed, 1 skipped"),
        ({"a": PASSED, "b": FAILED}, "fail: 1 passed, 1 failed; first test_b[1]"),
        ({"a": PASSED, "b": Verdict("error")}, "unknown: 1 passed, 1 error"),
        ({"a": Verdict("not applicable")}, "unknown: 1 not applicable"),
        ({}, "unknown: nothing ran"),
    ],
)
def test_a_column_is_as_good_as_its_worst_case(cases: dict[str, Verdict], text: str) -> None:
    """Cases that are not applicable do not count, and others that were skipped do."""
    assert of_column(table("kind", **cases), "t on kind", {}).text == text  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("promise", "outcome", "count"),
    [
        (Promise("DP-001", "x", "DEVICE-PLUGIN"), "passed", 1),
        (Promise("DP-001", "x", "DEVICE-PLUGIN"), "failed", 1),
        (Promise("DP-001", "x", "DEVICE-PLUGIN"), "error", 0),
        (Promise("DP-001", "x", "DEVICE-PLUGIN"), "skipped", 0),
        (Promise("DP-001", "x", "DEVICE-PLUGIN", "may"), "passed", 0),
        (Promise("DP-001", "x", "OURS"), "passed", 0),
        (Promise("DP-002", "x", "DEVICE-PLUGIN"), "passed", 0),
    ],
)
def test_what_each_target_must_keep_is_counted_if_judged(promise: Promise, outcome: Outcome, count: int) -> None:
    """A promise of ours alone, one that a target may leave out, and one without a verdict do not count."""
    assert judged_musts(table("kind", a=Verdict(outcome)), "t on kind", [promise]) == count


def test_a_defect_of_the_original_is_named_and_fails_no_target() -> None:
    """A case of another promise besides fails it all the same."""
    rows = {"D01": Promise("D01", "x", level="defect"), "X-001": Promise("X-001", "x")}

    def run(*ids: str) -> Table:
        cases = {A: Case(ids, {"t on kind": FAILED}), B: Case(("X-001",), {"t on kind": PASSED})}
        return Table("c", {"t on kind": Column("t", "kind", "", "")}, cases)

    def verdict(*ids: str) -> str:
        return of_column(run(*ids), "t on kind", rows).text

    assert verdict("D01") == "pass: 1 passed, 1 failed; failed cases are about the defects D01"
    assert verdict("D01", "X-001").startswith("fail: ")
    assert verdict().startswith("fail: ")
    assert of_promise(run("D01", "X-001"), "t on kind", "X-001").text == "fail: 1 of 2 failed by D01"
    assert of_promise(run("D01", "X-001"), "t on kind", "D01").text == "fail: 1 of 1 failed"
