"""Promises of a report: what is merged, its verdicts, its files, and comparison."""

from __future__ import annotations

import re
import subprocess
import threading
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from e2e.__main__ import main
from e2e.promises import Promise
from e2e.report.sources import state
from e2e.report.verdict_files import add, write
from e2e.report.verdict_page import to_html
from e2e.report.verdict_table import (
    WHOLE_CLUSTER,
    CardFacts,
    Case,
    Column,
    Evidence,
    NodeFacts,
    Outcome,
    PreflightLine,
    Table,
    Validated,
    Verdict,
    from_json,
    merged,
)
from e2e.report.verdicts import judged_musts, judgements, of_column, of_promise
from e2e.site.findings import Finding

PASSED, FAILED = Verdict("passed"), Verdict("failed", "why")
A, B = "e2e/a.py::test_a", "e2e/a.py::test_b[1]"
HOSTILE: Final = "<script src=//evil>&\"'\x00\x1b[31m\ud800</pre>]]>|`"
# The same, with a mark for each character that no document may have.
SHOWN: Final = "<script src=//evil>&\"'\ufffd\ufffd[31m\ufffd</pre>]]>|`"
EVIDENCE: Final = Evidence("E  no", ("POST /bind\n{}\n-> 500 no",), {"extender": "I was here"}, "pytest x")
OURS, REFERENCE = (
    Column("gpushare", "embedded", "v1.36.3", "2026-01-02T03:04:05Z"),
    Column("reference", "embedded", "", "d"),
)
TABLE: Final = Table(
    "0123456789ab",
    {one.name: one for one in (OURS, REFERENCE)},
    {
        "e2e/a.py::test_one": Case(("DP-001",), {OURS.name: PASSED, REFERENCE.name: PASSED}, "It serves."),
        "e2e/a.py::test_two[x]": Case(
            ("DP-001", "D01"),
            {OURS.name: PASSED, REFERENCE.name: Verdict("failed", "broke", 1.5, EVIDENCE)},
            "It counts.",
        ),
        "e2e/b.py::test_three": Case(("DP-002",), {REFERENCE.name: Verdict("not applicable", "no slots")}),
        "e2e/b.py::test_four": Case((), {OURS.name: Verdict("error", "OSError: gone", 0, Evidence())}),
    },
)
PROMISES: Final = [
    Promise("DP-001", "it serves", "DEVICE-PLUGIN", source="the API", needs=("slots",), not_imitated="a driver"),
    Promise("DP-002", "it lists", "DEVICE-PLUGIN"),
    Promise("DP-003", "it rests", "DEVICE-PLUGIN"),
    Promise("D01", "it swaps no cards", "DEVICE-PLUGIN", "defect"),
]
ERROR: Final = Finding("error", "over-booked", "node a", "15 of 14 units", "delete a pod")
WARNING: Final = Finding("warning", "bypassed", "pod default/a", "the plugin chose its card", "name no node")
RUN: Final = Column("gpushare", "existing", "v1.36.3", "2026-11-27T04:05:06Z")
CARD: Final = CardFacts(0, "GPU-1", "Tesla T4", 15079)
SITE: Final = Validated(
    RUN,
    seconds=61.2,
    server="https://api.site:6443",
    programs=("extender gpushare/extender:1.2",),
    nodes=(
        NodeFacts("a", "v1.36.3", "containerd 2.4", "6.8", "Ubuntu", "amd64", "535.104.05", (CARD,)),
        NodeFacts("b", runtime="containerd 2.4", other_resources=("nvidia.com/gpu",)),
    ),
    preflight=(PreflightLine("ports", "cluster", "ok", "free"), PreflightLine("MPS", "node b", "unknown", "not seen")),
    findings=(WARNING,),
    recordings={"a": {"driver": "535.104.05", "cards": [{"model": "t4", "count": 1}]}},
)
CASES: Final = {
    "test_it_fills": Case((), {"a": PASSED, "b": PASSED}, "It fills a card."),
    "test_it_spreads": Case((), {"a": Verdict("not applicable", "one card")}),
    "test_it_binds": Case((), {WHOLE_CLUSTER: PASSED}),
}
VALIDATION: Final = Table("0123456789ab", dict.fromkeys(("a", "b", WHOLE_CLUSTER), RUN), CASES, SITE)


def changed(cases: dict[str, Case] | None = None, columns: dict[str, Column] | None = None, **site: Any) -> Table:
    """The validation with other cases, or with other facts of its site."""
    shown = VALIDATION.columns if columns is None else columns
    return Table("0123456789ab", shown, CASES if cases is None else cases, msgspec.structs.replace(SITE, **site))


def table(
    cluster: str, release: str = "v1.36.3", commit: str = "c1", target: str = "t", date: str = "d", **cases: Verdict
) -> Table:
    """A run on one cluster; cases by their names here."""
    names = {"a": A, "b": B}
    column = Column(target, cluster, release, date)
    rows = {names[name]: Case(("DP-001",), {column.name: verdict}) for name, verdict in cases.items()}
    return Table(commit, {column.name: column}, rows)


@pytest.mark.parametrize(
    ("before", "run", "cells"),
    [
        (None, table("kind", a=PASSED), {"t on kind": [PASSED]}),
        (
            table("embedded", a=PASSED, b=FAILED),
            table("kind", a=FAILED),
            {"t on embedded": [PASSED, FAILED], "t on kind": [FAILED]},
        ),
        (table("kind", a=FAILED, b=PASSED), table("kind", a=PASSED), {"t on kind": [PASSED, PASSED]}),
        (table("kind", b=PASSED), table("embedded", a=PASSED, commit="c2"), {"t on embedded": [PASSED]}),
        (table("kind", a=PASSED, b=PASSED), table("kind", "v1.30.14", a=FAILED), {"t on kind": [FAILED]}),
        (table("kind", a=PASSED), table("kind", "", b=FAILED), {"t on kind": [PASSED, FAILED]}),
    ],
    ids=["first", "another cluster", "a part", "other sources", "another minor", "unasked"],
)
def test_a_run_is_merged_cell_by_cell(before: Table | None, run: Table, cells: dict[str, list[Verdict]]) -> None:
    """A column of other sources, or of another minor of Kubernetes, begins again."""
    both = merged(before, run)
    found: dict[str, list[Verdict]] = {}
    for name in sorted(both.cases):
        for column, verdict in both.cases[name].verdicts.items():
            found.setdefault(column, []).append(verdict)

    assert found == cells


@pytest.mark.parametrize(
    ("cases", "text", "promise"),
    [
        ({"a": PASSED, "b": Verdict("not applicable")}, "pass: 1 passed, 1 not applicable", "partial"),
        ({"a": PASSED, "b": Verdict("skipped")}, "partial: 1 passed, 1 skipped", "partial"),
        ({"a": PASSED, "b": FAILED}, "fail: 1 passed, 1 failed; first test_b[1]", "fail"),
        ({"a": PASSED, "b": Verdict("error")}, "unknown: 1 passed, 1 error", "unknown"),
        ({"a": Verdict("not applicable")}, "unknown: 1 not applicable", "not applicable"),
        ({}, "unknown: nothing ran", "unknown"),
    ],
)
def test_a_column_is_as_good_as_its_worst_case(cases: dict[str, Verdict], text: str, promise: str) -> None:
    """And so is a promise; for a column cases that are not applicable do not count, and others that were skipped do."""
    found = table("kind", **cases)  # type: ignore[arg-type]

    assert of_column(found, "t on kind", {}).text == text
    assert of_promise(found, "t on kind", "DP-001").word == promise


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


@pytest.mark.parametrize(
    ("ids", "column", "promise"),
    [
        (("D01",), "pass: 1 passed, 1 failed; failed cases are about the defects D01", "fail: 1 of 1 failed"),
        (("D01", "X-001"), "fail: ", "fail: 1 of 1 failed"),
        ((), "fail: ", "unknown: not run"),
    ],
)
def test_a_defect_of_the_original_fails_no_target(ids: tuple[str, ...], column: str, promise: str) -> None:
    """The verdict names the defect; a case of another promise besides fails the target all the same."""
    rows = {"D01": Promise("D01", "x", level="defect"), "X-001": Promise("X-001", "x")}
    cases = {A: Case(ids, {"t on kind": FAILED}), B: Case(("X-001",), {"t on kind": PASSED})}
    found = Table("c", {"t on kind": Column("t", "kind", "", "")}, cases)

    assert of_column(found, "t on kind", rows).text.startswith(column)
    assert of_promise(found, "t on kind", "D01").text == promise


OPEN: Final = {"test_it_holds": Case((), {"b": Verdict("not judged", "no room")})}
SIMULATED: Final = msgspec.structs.replace(SITE.nodes[1], are_cards_simulated=True)


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (changed(), "passed: 3 results are good on 2 nodes, 1 not applicable, and none is bad."),
        (
            changed({**CASES, "test_it_holds": Case((), {"b": FAILED})}),
            "failed: 1 of 5 results failed, first it holds on b.",
        ),
        (changed(findings=(WARNING, ERROR)), "failed: The cluster breaks 1 invariant of sharing, first over-booked of"),
        (changed({}, findings=(ERROR,)), "failed: The cluster breaks 1 invariant"),
        (
            changed(preflight=(PreflightLine("driver", "node b", "wrong", "none"),)),
            "incomplete: Preflight found driver of node b wrong.",
        ),
        (
            changed({"test_it_fills": Case((), {"a": PASSED})}),
            "incomplete: No case passed on 1 of 2 nodes, first b.",
        ),
        (changed({}), "incomplete: No case passed on 2 of 2 nodes"),
        (changed(columns={WHOLE_CLUSTER: RUN}), "incomplete: No node was validated."),
        (
            changed({**CASES, **OPEN}),
            "incomplete: 1 of 5 results could not be judged, first it holds on b: no room.",
        ),
        (changed(nodes=(SIMULATED,)), "passed with simulated cards: "),
        (changed(nodes=(SITE.nodes[0], SIMULATED)), "passed with simulated cards on b: "),
    ],
)
def test_a_validation_passes_only_what_was_shown(found: Table, text: str) -> None:
    """A failure fails it, a thing that is missing makes it incomplete, and simulated cards never pass for real ones."""
    assert judgements(found, ())[""].text.startswith(text)


class Page(HTMLParser):
    """The elements of a page, the names of their attributes, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An element begins."""
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        """The style counts, too."""
        self.text += data


def hostile(value: Any) -> Any:
    """The same data, with a hostile text in each of its texts; verdicts and the like stay."""
    if isinstance(value, dict):
        fixed = {"outcome", "judgement", "severity", "date", "promises"}
        return {key: item if key in fixed else hostile(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [hostile(item) for item in value]
    return f"{value}{HOSTILE}" if isinstance(value, str) and value else value


@pytest.mark.parametrize("found", [TABLE, VALIDATION], ids=["run", "validation"])
def test_a_report_of_any_texts_is_whole(tmp_path: Path, found: Table) -> None:
    """The files have each text letter for letter, but for characters that no page may have, and fetch nothing."""
    attack = msgspec.convert(hostile(msgspec.to_builtins(found)), Table)
    document, page = write(tmp_path / "new", attack, PROMISES)
    read, plain = Page(page.read_text()), Page(to_html(found, PROMISES))

    assert read.tags == plain.tags
    assert not {"script", "link", "img", "iframe", "object", "base", "form", "a"} & set(read.tags)
    assert not {"src", "href", "action"} & read.attributes
    assert "default-src 'none'" in page.read_text()
    assert not re.search(r"url\(|@import", page.read_text())
    assert SHOWN in read.text
    assert from_json(document.read_text()).commit == f"0123456789ab{HOSTILE}".replace("\ud800", "\ufffd")


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (
            TABLE,
            # Verdicts, the evidence of a failure, promises, cases, and ids that no case was about.
            "gpushare on embedded: unknown (2 passed, 1 error|fail (1 passed, 1 failed, 1 not applicable; first test_two[x]"
            "|e2e/a.py::test_two[x] (reference on embedded)|It counts.|D01 (defect): it swaps|E  no|-> 500 no"
            "|log of extender|I was here|pytest x|defects of the original|fail: 1 of 2 failed|unknown: not run"
            "|needs slots|no slots|No case of these runs is about DP-003.|v1.36.3",
        ),
        (
            changed({**CASES, **OPEN, "test_it_ends": Case((), {"a": FAILED}, "It ends.")}),
            # The verdict, a failure, results with reasons, findings, preflight, facts, a recording.
            "failed|test_it_ends (a)|why|it fills|It fills a card.|not judged|no room|not applicable|one card"
            "|the plugin chose its card|name no node|not seen|535.104.05|nvidia.com/gpu|https://api.site:6443|v1.36.3|extender:1.2"
            "|1 x Tesla T4 (15079 MiB)|model: t4",
        ),
    ],
    ids=["run", "validation"],
)
def test_the_page_has_all_that_is_known(found: Table, words: str) -> None:
    """The reader needs no other file."""
    text = Page(to_html(found, PROMISES)).text

    assert [word for word in words.split("|") if word not in text] == []


@pytest.mark.parametrize("text", ["", "[]", "{}", "{", '{"form": 99}', '{"commit": "c", "form": 1}', "\xff"])
def test_a_file_that_is_no_table_is_replaced(tmp_path: Path, text: str) -> None:
    """Half a file of another program's must not stop a run's end; for the reader of a table it is one kind of error."""
    (tmp_path / "verdicts.json").write_text(text)

    assert add(tmp_path, table("kind", a=PASSED), []) == table("kind", a=PASSED)
    with pytest.raises(ValueError, match="not a table of verdicts"):
        from_json(text)


def test_runs_that_end_at_once_lose_nothing(tmp_path: Path) -> None:
    """Each waits for the other's table; nothing else is left in the folder but the lock."""
    runs = [table("kind", target=f"t{number}", a=PASSED) for number in range(12)]
    threads = [threading.Thread(target=add, args=(tmp_path, run, [])) for run in runs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(from_json((tmp_path / "verdicts.json").read_text()).columns) == 12
    assert {path.name for path in tmp_path.iterdir()} == {"verdicts.json", "verdicts.html", ".verdicts.lock"}


def test_validations_are_compared_by_a_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 0 for equal verdicts, 3 for others, which are named with reasons, 1 for what is no report of a validation."""
    worse = changed({"test_it_fills": Case((), {"a": FAILED})})
    # Another time, other facts and a warning make no difference.
    tables = {"one": VALIDATION, "later": changed(seconds=5.0, findings=()), "worse": worse, "run": TABLE}
    paths = {name: write(tmp_path / name, found, PROMISES) for name, found in tables.items()}
    seconds = (paths["later"][0], paths["worse"][0], paths["run"][0], paths["one"][1])
    codes = [main(["compare", str(paths["one"][0]), str(second)]) for second in seconds]
    output, errors = capsys.readouterr()

    assert codes == [0, 3, 1, 1]
    assert "all 5 verdicts are equal" in output
    assert [line for line in output.splitlines() if line.startswith("differs")] == [
        "differs: test_it_fills on a: A passed, B failed (why)",
        "differs: test_it_fills on b: A passed, B not run",
        "differs: test_it_spreads on a: A not applicable (one card), B not run",
        "differs: test_it_binds on whole cluster: A passed, B not run",
        "differs: the whole: A passed, B failed",
    ]
    assert "not a table of verdicts" in errors


def test_each_state_of_the_sources_has_a_name(tmp_path: Path) -> None:
    """Other local changes, and files that git does not know, are another state; outside of a checkout none is known."""

    def git(*words: str) -> None:
        author = ("-c", "user.name=n", "-c", "user.email=e@example.invalid", "-c", "commit.gpgsign=false")
        subprocess.run(["git", "-C", str(tmp_path), *author, *words], check=True, capture_output=True)

    assert state(tmp_path / "none") == "unknown"
    git("init")
    (tmp_path / "file").write_text("1")
    git("add", "file")
    git("commit", "-m", "first")
    states = [state(tmp_path)]
    for name, text in (("file", "2"), ("file", "3"), ("new", ""), ("new", "something")):
        (tmp_path / name).write_text(text)
        states.append(state(tmp_path))

    assert len(set(states)) == 5
    assert len(states[0]) == 12
    assert {one.partition("+")[0] for one in states} == {states[0]}
    assert state(tmp_path) == states[-1]
