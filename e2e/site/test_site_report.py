"""Promises of the report of a site's validation: its verdict, its files, comparison, and the rows of the page of compatibility."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

import msgspec
import pytest

from e2e.__main__ import main
from e2e.site.findings import Finding
from e2e.site.report.compatibility import file_name_of, markdown_of
from e2e.site.report.html_page import to_html
from e2e.site.report.report_files import from_json, to_json, write_reports
from e2e.site.report.site_junit import to_junit
from e2e.site.report.site_sides import compare_sites
from e2e.site.report.site_verdict import verdict_of
from e2e.site.site_report import CardFacts, CaseResult, NodeFacts, PreflightLine, SiteReport

HOSTILE: Final = "<script src=//evil>&\"'\x00\x1b[31m\ud800</pre>]]>|`"
# The same, with a mark for each character that no document may have.
SHOWN: Final = "<script src=//evil>&\"'\ufffd\ufffd[31m\ufffd</pre>]]>|`"
ERROR: Final = Finding("error", "over-booked", "node a", "15 of 14 units", "delete a pod")
WARNING: Final = Finding("warning", "version-skew", "programs", "1.2 and 1.3", "finish the roll-out")
# Elements of HTML that have no end.
VOID: Final = frozenset({"meta"})


def case(
    name: str, node: str, verdict: str = "passed", reason: str = "", *, lacks_precondition: bool = False
) -> CaseResult:
    """One result."""
    return CaseResult(name, node, f"promise of {name}", verdict, reason, 1.5, lacks_precondition)  # type: ignore[arg-type]


REPORT: Final = SiteReport(
    kind="existing",
    are_cards_simulated=False,
    started="2026-11-27T04:05:06+00:00",
    seconds=61.2,
    server="https://api.site:6443",
    kubernetes="v1.36.3",
    programs=("extender gpushare/extender:1.2",),
    nodes=(
        NodeFacts(
            "a",
            "v1.36.3",
            "containerd 2.4",
            "6.8",
            "Ubuntu",
            "amd64",
            "535.104.05",
            (CardFacts(0, "GPU-1", "Tesla T4", 15079),),
        ),
        NodeFacts("b", runtime="containerd 2.4", other_resources=("nvidia.com/gpu",)),
    ),
    preflight=(
        PreflightLine("device plugin", "node a", "ok", "it runs"),
        PreflightLine("MPS", "node b", "unknown", "not seen"),
    ),
    cases=(
        case("fills", "a"),
        case("fills", "b"),
        case("spreads", "a", "not judged", "one card", lacks_precondition=True),
        case("binds", ""),
    ),
    findings=(WARNING,),
    not_run=("faults: a real card is not broken on purpose",),
    recordings={"a": {"driver": "535.104.05", "cards": [{"model": "t4", "count": 1}]}},
    commit="0123456789ab",
)


def changed(**fields: Any) -> SiteReport:
    """The report with other fields."""
    return msgspec.structs.replace(REPORT, **fields)


@pytest.mark.parametrize(
    ("fields", "word", "why"),
    [
        ({}, "passed", "3 results are good on 2 nodes, 1 not judged, and none is bad."),
        ({"findings": ()}, "passed", "3 results are good"),
        (
            {"cases": (*REPORT.cases, case("holds", "b", "failed"))},
            "failed",
            "1 of 5 results failed, first holds on b.",
        ),
        ({"findings": (WARNING, ERROR)}, "failed", "breaks 1 invariant of sharing, first over-booked of node a."),
        ({"findings": (ERROR,), "cases": ()}, "failed", "breaks 1 invariant"),
        (
            {"preflight": (PreflightLine("driver", "node b", "wrong", "none"),)},
            "incomplete",
            "Preflight found driver of node b wrong.",
        ),
        ({"cases": (case("fills", "a"),)}, "incomplete", "No case passed on 1 of 2 nodes, first b."),
        (
            {"cases": (case("fills", "a"), case("fills", "b", "not judged", lacks_precondition=True))},
            "incomplete",
            "first b.",
        ),
        (
            {"cases": (*REPORT.cases, case("fills", "c", "not judged", lacks_precondition=True))},
            "incomplete",
            "No case passed on 1 of 3 nodes, first c.",
        ),
        ({"cases": ()}, "incomplete", "No case passed on 2 of 2 nodes"),
        ({"cases": (case("binds", ""),), "nodes": ()}, "incomplete", "No node was validated."),
        (
            {"cases": (*REPORT.cases, case("holds", "b", "not judged", "no room"))},
            "incomplete",
            "1 of 5 results could not be judged, first holds on b: no room.",
        ),
    ],
)
def test_a_verdict_passes_only_what_was_shown(fields: dict[str, Any], word: str, why: str) -> None:
    """A failure fails it, and a thing that is missing or wrong before the start makes it incomplete."""
    verdict = verdict_of(changed(**fields))

    assert verdict.word == word
    assert why in verdict.why


def test_a_verdict_names_simulated_cards() -> None:
    """The verdict's line never lets simulated cards pass for real ones, in any file."""
    report = changed(are_cards_simulated=True)
    assert verdict_of(report).line.startswith("passed with simulated cards: ")
    assert "simulated" not in verdict_of(REPORT).line
    assert "<title>gpushare on https://api.site:6443: passed with simulated cards</title>" in to_html(report)
    assert '"verdict": "passed with simulated cards"' in to_json(report)
    assert " simulated: 1 x Tesla T4 (15079 MiB) " in markdown_of({"x.json": report})
    assert " real: 1 x Tesla T4 (15079 MiB) " in markdown_of({"x.json": REPORT})


def test_a_verdict_names_the_nodes_with_simulated_cards() -> None:
    """If some nodes have simulated cards and others have real ones, the verdict names the former, and each row its own."""
    a, b = REPORT.nodes
    report = changed(are_cards_simulated=True, nodes=(a, msgspec.structs.replace(b, are_cards_simulated=True)))

    assert verdict_of(report).line.startswith("passed with simulated cards on b: ")
    assert "simulated on b, real on the other nodes" in to_html(report)
    assert " simulated on b, real on the other nodes: 1 x Tesla T4 (15079 MiB) " in markdown_of({"x.json": report})


def test_a_case_that_could_not_be_judged_stands_out() -> None:
    """The page and the JUnit file show it with its reason; with a gap the verdict of the whole differs."""
    report = changed(cases=(*REPORT.cases[:2], case("spreads", "a", "not judged", "no room"), REPORT.cases[3]))
    text = Page(to_html(report)).text
    skipped = ElementTree.fromstring(to_junit(report)).find("testsuite[@name='a']/testcase/skipped")

    assert "not judged [1]" in text
    assert "Not judged" in text
    assert skipped is not None
    assert skipped.get("message") == "no room"
    assert "differs: the whole: A passed, B incomplete" in compare_sites(REPORT, report).text


def test_a_report_of_an_earlier_suite_can_be_read() -> None:
    """Its word for a case without its precondition was another."""
    text = to_json(REPORT).replace('"verdict": "not judged"', '"verdict": "skipped"')
    older = re.sub(r',\s*"lacks_precondition": (true|false)', "", text)

    assert "lacks_precondition" not in older
    assert from_json(older) == REPORT
    assert '"skipped"' not in to_json(from_json(older)) + to_html(REPORT)


def test_json_is_read_back_as_it_was() -> None:
    """The verdict stands in the file for others, and does not come from there."""
    text = to_json(REPORT)
    assert '"verdict": "passed"' in text
    assert from_json(text) == REPORT
    assert from_json(text.replace('"verdict": "passed"', '"verdict": "failed"', 1)) == REPORT


@pytest.mark.parametrize("text", ["", "[]", "{}", to_json(REPORT).replace('"form": 1', '"form": 2'), "\xff"])
def test_what_is_no_report_is_an_error(text: str) -> None:
    """One kind of error, whatever is wrong with it."""
    with pytest.raises(ValueError, match="not the report of a validation"):
        from_json(text)


def hostile(value: Any) -> Any:
    """The same data, with a hostile text in each of its texts; verdicts and the like stay."""
    if isinstance(value, dict):
        fixed = {"verdict", "judgement", "severity", "started"}
        return {key: item if key in fixed else hostile(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [hostile(item) for item in value]
    return f"{value}{HOSTILE}" if isinstance(value, str) and value else value


ATTACK: Final = msgspec.convert(hostile(msgspec.to_builtins(REPORT)), SiteReport)


class Page(HTMLParser):
    """Reads a page strictly: each element has its end."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize("report", [REPORT, ATTACK], ids=["site", "attack"])
def test_the_page_is_whole_and_fetches_nothing(report: SiteReport) -> None:
    """The same elements whatever the texts are: no script, no link, no picture, no style from elsewhere."""
    page = Page(to_html(report))
    attributes = {name for _, found in page.tags for name in found}

    assert [tag for tag, _ in page.tags] == [tag for tag, _ in Page(to_html(REPORT)).tags]
    assert {tag for tag, _ in page.tags}.isdisjoint({"script", "link", "img", "iframe", "object", "base", "form", "a"})
    assert attributes <= {"lang", "charset", "http-equiv", "name", "content", "class", "scope", "data-head"}
    assert not re.search(r"url\(|@import", to_html(report))


def test_the_page_shows_all_that_is_known() -> None:
    """Facts, preflight, results with reasons, findings, what did not run, recordings, and the row to keep."""
    text = Page(to_html(REPORT)).text
    facts = [
        "https://api.site:6443",
        "v1.36.3",
        "gpushare/extender:1.2",
        "containerd 2.4",
        "535.104.05",
        "nvidia.com/gpu",
    ]
    shown = [
        "it runs",
        "promise of fills",
        "not judged [1]",
        "one card",
        "not run",
        "1.2 and 1.3",
        "finish the roll-out",
    ]
    kept = [
        "faults: a real card is not broken on purpose",
        "model: t4",
        "2026-11-27-existing-v1.36.3-Tesla-T4.json",
        "0123456789ab",
    ]

    assert [word for word in facts + shown + kept if word not in text] == []


def test_a_text_with_markup_is_shown_as_a_text() -> None:
    """The page has it letter for letter, but for the characters that no page may have."""
    assert SHOWN in Page(to_html(ATTACK)).text


def test_junit_has_a_suite_for_each_node() -> None:
    """With counts, reasons, versions, and a suite of the verdict, as CI sees only what stands there."""
    root = ElementTree.fromstring(to_junit(REPORT))
    counts = {suite.get("name"): (suite.get("tests"), suite.get("skipped"), suite.get("failures")) for suite in root}
    properties = {one.get("name"): one.get("value") for one in root.findall("testsuite[@name='a']/properties/property")}
    (skipped,) = root.iter("skipped")

    assert counts == {
        "verdict": ("1", "0", "0"),
        "a": ("2", "1", "0"),
        "b": ("1", "0", "0"),
        "whole cluster": ("1", "0", "0"),
    }
    assert (properties["driver"], properties["kubernetes"], properties["cards"]) == ("535.104.05", "v1.36.3", "real")
    assert skipped.get("message") == "one card"


@pytest.mark.parametrize(("fields", "outcome"), [({"findings": (ERROR,)}, "failure"), ({"cases": ()}, "error")])
def test_junit_shows_a_verdict_that_is_not_passed(fields: dict[str, Any], outcome: str) -> None:
    """Also if every case is well: a finding of an error fails CI, and so does what is incomplete."""
    root = ElementTree.fromstring(to_junit(changed(**fields)))

    assert root.find(f"testsuite[@name='verdict']/testcase/{outcome}") is not None


def test_files_of_hostile_texts_can_be_read(tmp_path: Path) -> None:
    """JSON and JUnit files of any texts parse."""
    document, page, suites = write_reports(ATTACK, tmp_path / "new")

    assert from_json(document.read_text()).nodes[0].name == f"a{SHOWN}"
    assert Page(page.read_text()).tags
    assert len(ElementTree.parse(suites).findall("testsuite")) == 4


def test_equal_verdicts_of_two_reports_are_equal() -> None:
    """Another kind of cluster, other reasons and times make no difference."""
    other = changed(
        kind="kind",
        seconds=5.0,
        cases=(*REPORT.cases[:2], case("spreads", "a", "not judged", "why", lacks_precondition=True), REPORT.cases[3]),
    )
    outcome = compare_sites(REPORT, other)

    assert outcome.differences == 0
    assert re.search(r"^fills +passed +passed$", outcome.text, re.MULTILINE)
    # Five results, of which one is not run in both, and the verdict of the whole.
    assert outcome.text.endswith("all 6 verdicts are equal")


def test_verdicts_that_differ_are_named_with_reasons() -> None:
    """A result that is missing differs as well, and so does the verdict of the whole."""
    other = changed(
        cases=(
            case("fills", "a", "failed", "no room"),
            case("spreads", "a", "not judged", lacks_precondition=True),
            case("binds", ""),
        )
    )
    outcome = compare_sites(REPORT, other)

    assert outcome.differences == 3
    assert "differs: fills on a: A passed, B failed (no room)" in outcome.text
    assert "differs: fills on b: A passed, B not run" in outcome.text
    assert "differs: the whole: A passed, B failed" in outcome.text


def test_a_finding_of_one_report_alone_is_shown() -> None:
    """A warning changes no verdict."""
    outcome = compare_sites(REPORT, changed(findings=()))

    assert outcome.differences == 0
    assert "only A has the warning version-skew of programs" in outcome.text


def test_the_command_compares_and_writes_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 0 for equal verdicts, 3 for others, 1 for what cannot be read or compared."""
    files = {"one": REPORT, "bad": changed(findings=(ERROR,)), "empty": changed(cases=())}
    paths = {name: str(write_reports(report, tmp_path / name)[0]) for name, report in files.items()}

    assert main(["compare", paths["one"], paths["one"]]) == 0
    assert main(["compare", paths["one"], paths["bad"]]) == 3
    assert main(["compare", paths["empty"], paths["empty"]]) == 1
    assert main(["report", paths["one"], "--into", str(tmp_path / "again")]) == 0
    assert (tmp_path / "again" / "site_report.html").read_text() == to_html(REPORT)
    assert main(["report", str(tmp_path / "again" / "site_report.xml")]) == 1
    assert "not the report of a validation" in capsys.readouterr().err


def test_rows_of_kept_reports_are_newest_first() -> None:
    """A row names versions, verdict and file; without a report nothing is claimed."""
    older = changed(started="2026-01-02T03:04:05+00:00", kind="bare", kubernetes="", nodes=())
    rows = markdown_of({"a.json": older, "b.json": REPORT}).splitlines()[2:]

    assert rows[0] == (
        "| 2026-11-27 | existing | v1.36.3 | containerd 2.4 | 535.104.05 | real: 1 x Tesla T4 (15079 MiB) "
        "| gpushare: extender gpushare/extender:1.2 | 0123456789ab | passed | [b.json](compatibility/b.json) |"
    )
    assert rows[1].startswith("| 2026-01-02 | bare | none | not known |")
    assert "nothing is claimed" in markdown_of({})


def test_the_name_of_a_kept_file_is_safe() -> None:
    """Nothing of a report's text leads out of the folder."""
    assert file_name_of(changed(kind="../x y")) == "2026-11-27-..-x-y-v1.36.3-Tesla-T4.json"
