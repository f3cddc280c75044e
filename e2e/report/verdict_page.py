"""The table of verdicts as one page: the verdict, each failure with its evidence, promises and cases by column. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final
from xml.etree.ElementTree import Element

from e2e.promises import Promise
from e2e.report.markup import table, tag
from e2e.report.pages import page
from e2e.report.promise_verdicts import judged_promises, of_column, of_promise
from e2e.report.verdict_table import Case, Table, Verdict, columns_of, troubles

NOT_RUN: Final = "not run"
# Without it every row is shown, and the finder is not.
SCRIPT: Final = """
const finder = document.querySelector('.finder'), words = finder.querySelector('#words'), bad = finder.querySelector('#bad');
function find() {
  const wanted = words.value.toLowerCase();
  for (const row of document.querySelectorAll('tbody tr:has(th), article'))
    row.hidden = !row.textContent.toLowerCase().includes(wanted)
      || (bad.checked && !row.querySelector('.fail, .failed, .error, .unknown, .partial'));
  for (const file of document.querySelectorAll('details'))
    file.open = (wanted || bad.checked) && file.querySelector('tbody tr:not([hidden])');
}
finder.hidden = false; words.addEventListener('input', find); bad.addEventListener('input', find);
"""


def to_html(verdicts: Table, promises: Sequence[Promise]) -> str:
    """The page."""
    rows = {row.id: row for row in promises}
    names = columns_of(verdicts)
    targets = ", ".join(dict.fromkeys(verdicts.columns[name].target for name in names))
    judged = {name: of_column(verdicts, name, rows) for name in names}
    words = ", ".join(dict.fromkeys(each.word for each in judged.values()))
    parts = [
        tag("p", tag("strong", f"{name}: {each.word}"), f" ({each.why})", class_=f"verdict {_class(each.word)}")
        for name, each in judged.items()
    ]
    parts += [_finder(), tag("h2", "Runs"), _runs(verdicts, names)]
    parts += [tag("h2", "Failures"), *_failures(verdicts, rows)]
    parts += [tag("h2", "Promises"), *_promises(verdicts, promises, names)]
    parts += [tag("h2", "Cases"), *_cases(verdicts, names)]
    return page(f"{targets}: {words}", f"Conformance of {targets}", *parts, script=SCRIPT)


def _class(word: str) -> str:
    return word.replace(" ", "-")


def _finder() -> Element:
    find = tag("label", "Find ", tag("input", type="search", id="words"))
    only = tag("label", tag("input", type="checkbox", id="bad"), " only what has not passed")
    return tag("p", find, " ", only, class_="finder", hidden="hidden")


def _runs(verdicts: Table, names: Iterable[str]) -> Element:
    columns = [verdicts.columns[name] for name in names]
    rows = [[one.target, one.cluster, one.kubernetes or "none", one.date, verdicts.commit] for one in columns]
    return table(("target", "cluster", "Kubernetes", "run at", "suite at"), rows)


def _failures(verdicts: Table, rows: Mapping[str, Promise]) -> Iterator[Element]:
    none = True
    for number, (column, name, case, verdict) in enumerate(troubles(verdicts), 1):
        none = False
        yield tag("article", *_failure(column, name, case, verdict, rows), id=f"failure-{number}")
    if none:
        yield tag("p", "None.")


def _failure(column: str, name: str, case: Case, verdict: Verdict, rows: Mapping[str, Promise]) -> Iterator[Element]:
    evidence = verdict.evidence
    yield tag("h3", tag("span", verdict.outcome, class_=_class(verdict.outcome)), f" {name} ({column})")
    yield tag("p", case.text or "no description")
    if case.promises:
        known = [f"{one} ({rows[one].level}): {rows[one].text}" if one in rows else one for one in case.promises]
        yield tag("ul", *(tag("li", text) for text in known))
    if evidence is None or not evidence.answer:
        yield from _part("reason", verdict.reason)
    if evidence is None:
        return
    for title in ("expectation", "answer", "difference"):
        yield from _part(title, getattr(evidence, title))
    yield from _part("the last requests to the programs", "\n\n".join(evidence.requests))
    for program, lines in evidence.logs.items():
        yield from _part(f"log of {program} during the case", lines)
    yield from _part("again", evidence.again)


def _part(title: str, text: str) -> Iterator[Element]:
    if text:
        yield tag("h4", title)
        yield tag("pre", text, tabindex="0")


def _promises(verdicts: Table, promises: Sequence[Promise], names: Sequence[str]) -> Iterator[Element]:
    """A table for each profile, the original's defects in one of their own, and the ids that no case was about."""
    judged = judged_promises(verdicts, promises)
    groups: dict[str, list[Promise]] = defaultdict(list)
    for one in judged:
        groups["defects of the original" if one.level == "defect" else one.profile].append(one)
    for group, rows in groups.items():
        yield tag("h3", group)
        cells = [[_promise(one), *(_cell(verdicts, name, one) for name in names)] for one in rows]
        yield table(("promise", *names), cells)
    left = [one.id for one in promises if one not in judged]
    if left:
        yield tag("p", f"No case of these runs is about {', '.join(left)}.")


def _promise(one: Promise) -> Element:
    facts = [
        one.level,
        *([f"needs {', '.join(one.needs)}"] if one.needs else []),
        *([one.source] if one.source else []),
    ]
    facts += [f"not imitated: {one.not_imitated}"] if one.not_imitated else []
    return tag("th", f"{one.id} {one.text}", tag("small", "; ".join(facts)), scope="row")


def _cell(verdicts: Table, column: str, one: Promise) -> Element:
    found = of_promise(verdicts, column, one.id)
    return tag("td", found.text, class_=_class(found.word))


def _cases(verdicts: Table, names: Sequence[str]) -> Iterator[Element]:
    """A table for each file; it begins closed, and failures have stood above."""
    files: dict[str, list[str]] = defaultdict(list)
    for name in verdicts.cases:
        files[name.partition("::")[0]].append(name)
    for file, cases in files.items():
        rows = [_case(name, verdicts.cases[name], names) for name in cases]
        yield tag("details", tag("summary", f"{file} ({len(cases)})"), table(("case", "ids", *names), rows))


def _case(name: str, case: Case, names: Iterable[str]) -> list[str | Element]:
    row: list[str | Element] = [tag("th", name.partition("::")[2], tag("small", case.text), scope="row")]
    row.append(" ".join(case.promises))
    for column in names:
        verdict = case.verdicts.get(column)
        word = verdict.outcome if verdict else NOT_RUN
        reason = [tag("small", verdict.reason)] if verdict and verdict.reason else []
        row.append(tag("td", word, *reason, class_=_class(word)))
    return row
