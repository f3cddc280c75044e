"""Promises of the forms of a report: HTML, JUnit XML, JSON; and of what is done with the JSON afterwards."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

import pytest

from e2e.__main__ import main
from e2e.promises import Promise
from e2e.report.junit_suites import to_junit
from e2e.report.pages import DARK, LIGHT
from e2e.report.side_by_side import compare_tables
from e2e.report.verdict_files import write
from e2e.report.verdict_page import to_html
from e2e.report.verdict_table import Case, Column, Evidence, Table, Verdict, from_json

OURS, RIVAL = Column("gpushare", "embedded", "v1.36.3", "2026-01-02T03:04:05Z"), Column("rival", "embedded", "", "d")
PASSED: Final = Verdict("passed")
HOSTILE: Final = "<script src=//evil>]]>&"
EVIDENCE: Final = Evidence(
    "[1]", HOSTILE, "-[1]\n+[2]", ("POST /bind\n{}\n-> 500 no",), {"extender": "line of the log"}, "python -m pytest x"
)
TABLE: Final = Table(
    "0123456789ab",
    {one.name: one for one in (OURS, RIVAL)},
    {
        "e2e/a.py::test_one": Case(("DP-001",), {OURS.name: PASSED, RIVAL.name: PASSED}, "It serves."),
        "e2e/a.py::test_two[x]": Case(
            ("DP-001", "D01"), {OURS.name: PASSED, RIVAL.name: Verdict("failed", "broke", 1.5, EVIDENCE)}, "It counts."
        ),
        "e2e/b.py::test_three": Case(("DP-002",), {RIVAL.name: Verdict("not applicable", "not applicable: no slots")}),
        "e2e/b.py::test_four": Case((), {OURS.name: Verdict("error", "OSError: gone", 0, Evidence())}),
    },
)
PROMISES: Final = [
    Promise("DP-001", "it serves", "DEVICE-PLUGIN", source="the API", needs=("slots",), not_imitated="a driver"),
    Promise("DP-002", "it lists", "DEVICE-PLUGIN"),
    Promise("DP-003", "it rests", "DEVICE-PLUGIN"),
    Promise("D01", "it swaps no cards", "DEVICE-PLUGIN", "defect"),
]


def parsed(page: str) -> ElementTree.Element:
    """The page as a tree, which each of its elements closes."""
    return ElementTree.fromstring(re.sub(r"<(meta|input)([^>]*)>", r"<\1\2/>", page.replace("<!DOCTYPE html>", "")))


def texts(element: ElementTree.Element) -> str:
    """All its text in one line."""
    return " ".join(" ".join(element.itertext()).split())


def plain(page: str) -> str:
    """A page without its script, which is no XML."""
    return re.sub(r"<(script|style)>.*?</\1>", "", page, flags=re.DOTALL)


def test_the_page_begins_with_the_verdict_and_its_numbers() -> None:
    """A column is a target on a cluster; the verdict is a word, and no colour alone."""
    verdicts = [
        texts(one)
        for one in parsed(plain(to_html(TABLE, PROMISES))).iter("p")
        if one.get("class", "").startswith("verdict")
    ]

    assert verdicts[0].startswith("gpushare on embedded: unknown (2 passed, 1 error")
    assert verdicts[1].startswith("rival on embedded: fail (1 passed, 1 failed, 1 not applicable; first test_two[x]")
    assert "failed cases are about the defects D01" in verdicts[1]


def test_a_failure_stands_with_all_of_its_evidence() -> None:
    """The reader needs no other file; what a program answered ends no element and runs nothing."""
    page = to_html(TABLE, PROMISES)
    (failure, _) = sorted(parsed(plain(page)).iter("article"), key=lambda one: "error" in texts(one))
    shown = texts(failure)

    for part in ("e2e/a.py::test_two[x]", "It counts.", "D01 (defect)", "[1]", HOSTILE, "-[1] +[2]", "-> 500 no"):
        assert part in shown
    for part in ("log of extender", "line of the log", "again python -m pytest x"):
        assert part in shown
    assert "<script src" not in page
    assert page.count("<script>") == 1
    assert "default-src 'none'" in page


def test_promises_are_rows_and_columns_are_targets_on_clusters() -> None:
    """Defects of the original are a table of their own, and ids that no case was about are named once."""
    page = parsed(plain(to_html(TABLE, PROMISES)))
    rows = {texts(row)[:6].strip(): [texts(cell) for cell in row.iter("td")] for row in page.iter("tr")}

    assert rows["DP-001"] == ["pass", "fail: 1 of 2 failed by D01"]
    assert rows["DP-002"] == ["unknown: not run", "not applicable"]
    assert rows["D01 it"] == ["pass", "fail: 1 of 1 failed"]
    assert "No case of these runs is about DP-003." in texts(page)
    heads = [head for head in page.iter("th") if head.get("scope") not in ("col", "row")]
    assert heads == []


def luminance(colour: str) -> float:
    """The relative luminance that WCAG defines."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (one / 12.92 if one <= 0.03928 else ((one + 0.055) / 1.055) ** 2.4 for one in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_each_text_has_the_contrast_that_wcag_wants(colours: dict[str, str]) -> None:
    """The ratio is 4.5 at least, on each background that text stands on."""
    grounds = [colours[name] for name in ("paper", "head", "code", "good", "bad", "doubt", "left")]
    pairs = [(text, ground) for text in ("ink", "faint", "link") for ground in grounds]
    light = [sorted((luminance(colours[text]), luminance(ground))) for text, ground in pairs]

    assert [pair for pair, (low, high) in zip(pairs, light, strict=True) if (high + 0.05) / (low + 0.05) < 4.5] == []


def test_junit_has_a_suite_for_each_column_and_one_of_verdicts() -> None:
    """A system of CI sees counts, ids and the evidence of a failure."""
    root = ElementTree.fromstring(to_junit(TABLE, {row.id: row for row in PROMISES}).encode())
    suites = {suite.get("name"): suite for suite in root}
    failure = suites["rival on embedded"].find("testcase/failure")

    assert [one.tag for one in suites["verdict"].iter() if one.tag in ("failure", "error")] == ["error", "failure"]
    assert {key: suites["rival on embedded"].get(key) for key in ("tests", "failures", "skipped")} == {
        "tests": "3", "failures": "1", "skipped": "1",
    }  # fmt: skip
    assert failure is not None
    assert failure.get("message") == "broke"
    assert "again: python -m pytest x" in (failure.text or "")
    ids = [one.get("value") for one in suites["rival on embedded"].iter("property") if one.get("name") == "case-id"]
    assert ids == ["DP-001", "DP-001", "D01", "DP-002"]


def test_json_has_the_verdicts_and_is_read_back_as_it_was(tmp_path: Path) -> None:
    """Programs and later runs read it; the verdicts in it follow from the rest."""
    write(tmp_path, TABLE, PROMISES)
    text = (tmp_path / "verdicts.json").read_text()

    assert from_json(text) == TABLE
    assert json.loads(text)["promises"]["DP-001"] == {"gpushare on embedded": "pass", "rival on embedded": "fail"}
    assert json.loads(text)["verdicts"]["rival on embedded"].startswith("fail: ")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"commit": "c", "form": 1}'])
def test_what_is_no_table_is_an_error(text: str) -> None:
    """One kind of error is raised, whatever is wrong with the text."""
    with pytest.raises(ValueError, match="not a table of verdicts"):
        from_json(text)


def of(column: Column) -> Table:
    """The part of the table that is one run's."""
    cases = {
        name: Case(case.promises, {column.name: case.verdicts[column.name]}, case.text)
        for name, case in TABLE.cases.items()
        if column.name in case.verdicts
    }
    return Table(TABLE.commit, {column.name: column}, cases)


def test_two_targets_are_compared_by_cluster() -> None:
    """Promises are shown as a table, cases only if they differ; a case that one did not run differs."""
    found = compare_tables(of(OURS), of(RIVAL), PROMISES)

    assert "differs: DP-001 on embedded: A pass, B fail (1 of 2 failed by D01)" in found.text
    assert "differs: e2e/b.py::test_four on embedded: A error (OSError: gone), B not run" in found.text
    assert "differs: the whole: A unknown, B fail" in found.text
    assert compare_tables(of(OURS), of(OURS), PROMISES).differences == 0


def test_reports_are_compared_and_joined_by_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 3 is for a difference; the runs of two targets become one page."""
    for column in (OURS, RIVAL):
        write(tmp_path / column.target, of(column), PROMISES)
    files = [str(tmp_path / column.target / "verdicts.json") for column in (OURS, RIVAL)]

    assert main(["compare", *files]) == 3
    assert main(["compare", files[0], files[0]]) == 0
    assert main(["report", *files, "--into", str(tmp_path / "both")]) == 0
    assert from_json((tmp_path / "both" / "verdicts.json").read_text()).columns == TABLE.columns
    assert "rival on embedded" in (tmp_path / "both" / "verdicts.html").read_text()
    assert "both/verdicts.html" in capsys.readouterr().out
