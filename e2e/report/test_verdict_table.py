"""Promises of e2e.report.verdict_table."""

from __future__ import annotations

import pytest

from e2e.report.verdict_table import Case, Column, Table, Verdict, columns_of, counts, merged

PASSED, FAILED = Verdict("passed"), Verdict("failed", "why")
A, B = "e2e/a.py::test_a", "e2e/a.py::test_b[1]"


def table(
    cluster: str, release: str = "v1.36.3", commit: str = "c1", target: str = "t", date: str = "d", **cases: Verdict
) -> Table:
    """A run on one cluster; cases by their names here."""
    names = {"a": A, "b": B}
    column = {cluster: Column(release, date)}
    return Table(
        commit, target, column, {names[name]: Case(("DP-001",), {cluster: verdict}) for name, verdict in cases.items()}
    )


def test_the_first_run_is_the_table() -> None:
    """The first run is the table, because there is no other table to merge it with."""
    run = table("kind", a=PASSED)

    assert merged(None, run) is run


def test_another_cluster_gets_a_column_of_its_own() -> None:
    """The results of the first run stay."""
    both = merged(table("embedded", a=PASSED, b=FAILED), table("kind", a=FAILED))

    assert both.cases == {
        A: Case(("DP-001",), {"embedded": PASSED, "kind": FAILED}),
        B: Case(("DP-001",), {"embedded": FAILED}),
    }
    assert set(both.columns) == {"embedded", "kind"}


def test_a_run_of_one_case_replaces_that_cell_alone() -> None:
    """A later run may be a part of the suite; its date becomes the column's."""
    later = merged(table("kind", a=FAILED, b=PASSED, date="d1"), table("kind", a=PASSED, date="d2"))

    assert {name: case.verdicts["kind"] for name, case in later.cases.items()} == {A: PASSED, B: PASSED}
    assert later.columns == {"kind": Column("v1.36.3", "d2")}


@pytest.mark.parametrize("change", [{"commit": "c2"}, {"target": "other"}])
def test_nothing_stays_of_other_sources_or_another_target(change: dict[str, str]) -> None:
    """A table is of one thing."""
    run = table("embedded", a=PASSED, **change)  # type: ignore[arg-type]

    assert merged(table("kind", b=PASSED), run) == run


def test_a_column_begins_again_with_another_minor() -> None:
    """1.30 shows nothing of 1.36; the other columns stay."""
    before = merged(table("embedded", b=PASSED), table("controlplane", "v1.36.3", a=PASSED, b=PASSED))
    after = merged(before, table("controlplane", "v1.30.14", a=FAILED))

    assert after.cases[A].verdicts == {"controlplane": FAILED}
    assert after.cases[B].verdicts == {"embedded": PASSED}


@pytest.mark.parametrize(
    ("first", "second"), [("v1.36.3", "1.36"), ("1.36", "v1.36.3"), ("v1.36.3", ""), ("", "v1.36.3")]
)
def test_a_run_that_asked_no_api_server_goes_on_with_the_column(first: str, second: str) -> None:
    """The exact release stays known."""
    both = merged(table("embedded", first, a=PASSED), table("embedded", second, b=PASSED))

    assert both.columns["embedded"].kubernetes == "v1.36.3"
    assert set(both.cases) == {A, B}


def test_counts_say_what_did_not_run() -> None:
    """A cluster that has shown nothing has passed nothing."""
    both = merged(table("embedded", a=PASSED, b=Verdict("skipped", "x")), table("kind", a=FAILED))

    assert counts(both, "embedded") == {"passed": 1, "skipped": 1, "failed": 0, "error": 0, "not run": 0}
    assert counts(both, "kind") == {"passed": 0, "skipped": 0, "failed": 1, "error": 0, "not run": 1}
    assert counts(both, "controlplane")["not run"] == 2


def test_columns_are_ordered_from_the_instant_to_the_real() -> None:
    """Cases that did not run are shown, others come last."""
    assert columns_of(["existing", "kind"]) == ["embedded", "controlplane", "kind", "existing"]
