"""A table of verdicts as one page: the verdict, each failure with its evidence, promises and cases by column, the site.

The page fetches nothing, prints well, and is for light and dark screens, wide and narrow ones.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import yaml

from e2e.promises import Promise
from e2e.report.verdict_table import (
    Case,
    NodeFacts,
    Table,
    Validated,
    Verdict,
    columns_of,
    readable,
    title_of,
    troubles,
)
from e2e.report.verdicts import judged_promises, judgements, kind_of_cards, of_promise
from e2e.site.findings import in_order

NOT_RUN: Final = "not run"
_UNKNOWN: Final = "not known"
_STYLE: Final = Path(__file__).with_suffix(".css")


def to_html(verdicts: Table, promises: Sequence[Promise]) -> str:
    """The page."""
    names, site, judged = columns_of(verdicts), verdicts.site, judgements(verdicts, promises)
    subject = ", ".join(dict.fromkeys(verdicts.columns[name].target for name in names))
    heading = f"Conformance of {subject}"
    if site is not None:
        subject, heading = f"gpushare on {site.server or site.run.cluster}", "Validation of gpushare"
    parts = [
        tag(
            "p",
            tag("strong", f"{name}: {each.title}" if name else each.title),
            f" ({each.why})",
            class_=f"verdict {_class(each.word)}",
        )
        for name, each in judged.items()
    ]
    rows = {row.id: row for row in promises}
    sections: dict[str, Iterable[Element]] = {"Failures": _failures(verdicts, rows)}
    if site is None:
        sections["Promises"] = _promises(verdicts, promises, names)
    sections |= {"Cases": _cases(verdicts, names), **(_site(verdicts, site) if site else {"Runs": _runs(verdicts)})}
    for title, body in sections.items():
        parts += [tag("h2", title), *(list(body) or [tag("p", "None.")])]
    words = ", ".join(dict.fromkeys(each.title for each in judged.values()))
    return _whole(f"{subject}: {words}", heading, parts)


def _whole(title: str, heading: str, parts: Iterable[Element]) -> str:
    """The page with its frame."""
    # Even if a browser took a text for markup, it would fetch and run nothing.
    allowed = "default-src 'none'; style-src 'unsafe-inline'"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        Element("meta", {"http-equiv": "Content-Security-Policy", "content": allowed}),
        tag("meta", name="viewport", content="width=device-width"),
        tag("title", title),
        tag("style", _STYLE.read_text(encoding="utf-8")),
    )
    body = tag("body", tag("main", tag("h1", heading), *parts))
    return f"<!DOCTYPE html>\n{ElementTree.tostring(tag('html', head, body, lang='en'), encoding='unicode', method='html')}\n"


def _class(word: str) -> str:
    return word.replace(" ", "-")


def _runs(verdicts: Table) -> Iterator[Element]:
    columns = [verdicts.columns[name] for name in columns_of(verdicts)]
    rows = [[one.target, one.cluster, one.kubernetes or "none", one.date, verdicts.commit] for one in columns]
    yield table(("target", "cluster", "Kubernetes", "run at", "suite at"), rows)


def _failures(verdicts: Table, rows: Mapping[str, Promise]) -> Iterator[Element]:
    for number, (column, name, case, verdict) in enumerate(troubles(verdicts), 1):
        yield tag("article", *_failure(column, name, case, verdict, rows), id=f"failure-{number}")


def _failure(column: str, name: str, case: Case, verdict: Verdict, rows: Mapping[str, Promise]) -> Iterator[Element]:
    evidence = verdict.evidence
    yield tag("h3", tag("span", verdict.outcome, class_=_class(verdict.outcome)), f" {name} ({column})")
    yield tag("p", case.text or "no description")
    if case.promises:
        known = [f"{one} ({rows[one].level}): {rows[one].text}" if one in rows else one for one in case.promises]
        yield tag("ul", *(tag("li", text) for text in known))
    if evidence is None or not evidence.account:
        yield from _part("reason", verdict.reason)
    if evidence is None:
        return
    yield from _part("pytest's account", evidence.account)
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
    """A table for each file; it begins closed, and failures have stood above. A validation's is one open table."""
    files: dict[str, list[str]] = defaultdict(list)
    for name in verdicts.cases:
        files[name.rpartition("::")[0]].append(name)
    for file, cases in files.items():
        rows = [_case(name, verdicts.cases[name], names) for name in cases]
        found = table(("case", *names), rows)
        yield tag("details", tag("summary", f"{file} ({len(cases)})"), found) if file else found


def _case(name: str, case: Case, names: Iterable[str]) -> list[str | Element]:
    file, _, test = name.rpartition("::")
    about = f"{' '.join(case.promises)} {case.text}".strip()
    row: list[str | Element] = [tag("th", test if file else title_of(name), tag("small", about), scope="row")]
    for column in names:
        verdict = case.verdicts.get(column)
        # A validation has a result for each case on each node that it is for.
        word = verdict.outcome if verdict else NOT_RUN if file else ""
        reason = [tag("small", verdict.reason)] if verdict and verdict.reason else []
        row.append(tag("td", word, *reason, class_=_class(word)))
    return row


def _site(verdicts: Table, site: Validated) -> dict[str, Iterable[Element]]:
    """The sections of a validation; one without a row has None."""
    facts = {
        "started": f"{site.run.date} (UTC), for {site.seconds:.0f} s",
        "kind of cluster": site.run.cluster,
        "API server": site.server,
        "Kubernetes": site.run.kubernetes,
        "cards": kind_of_cards(site),
        "judged": site.run.target,
        "programs": "\n".join(site.programs),
        "suite at": verdicts.commit,
    }
    findings: list[list[str | Element]] = [
        [tag("td", one.severity, class_=one.severity), one.rule, one.subject, one.text, one.todo]
        for one in in_order(site.findings)
    ]
    preflight: list[list[str | Element]] = [
        [tag("td", one.judgement, class_=one.judgement), one.name, one.subject, one.text, one.todo]
        for one in sorted(site.preflight, key=lambda line: ("wrong", "unknown", "ok").index(line.judgement))
    ]
    seen = ("found", "what to do")
    node = ("node", "kubelet", "runtime", "driver", "kernel", "system", "cards", "other GPU plugins")
    return {
        "Findings": _table_or_none(("severity", "invariant", "on", *seen), findings),
        "Preflight": _table_or_none(("is", "looked at", "on", *seen), preflight),
        "Nodes": _table_or_none(node, [_node(one) for one in site.nodes]),
        "Validated": [table(("", "what the run saw"), ((fact, text or _UNKNOWN) for fact, text in facts.items()))],
        "Recordings": [
            tag(
                "details",
                tag("summary", f"Cards of {one}, for fake-nvml"),
                tag("pre", yaml.safe_dump(box, sort_keys=False, allow_unicode=True)),
            )
            for one, box in site.recordings.items()
        ],
    }


def _node(node: NodeFacts) -> list[str | Element]:
    facts = [node.name, node.kubelet, node.runtime, node.driver, node.kernel, f"{node.system} {node.architecture}"]
    kinds = Counter(f"{card.model or 'model not known'} ({card.mib} MiB)" for card in node.cards)
    facts.append(", ".join(f"{count} x {kind}" for kind, count in kinds.items()))
    return [*(fact.strip() or _UNKNOWN for fact in facts), ", ".join(node.other_resources) or "none"]


def _table_or_none(head: Sequence[str], rows: Sequence[Sequence[str | Element]]) -> list[Element]:
    return [table(head, rows)] if rows else []


def tag(kind: str, /, *children: str | Element, **attributes: str) -> Element:
    """An element; ``class_`` is the attribute ``class``."""
    element = Element(kind, {key.rstrip("_"): readable(value) for key, value in attributes.items()})
    for child in children:
        if isinstance(child, Element):
            element.append(child)
        elif len(element):
            element[-1].tail = (element[-1].tail or "") + readable(child)
        else:
            element.text = (element.text or "") + readable(child)
    return element


def table(head: Sequence[str], rows: Iterable[Iterable[str | Element]]) -> Element:
    """A table; a cell that is an element of its own is taken as it is. Each cell names its column for a narrow screen."""
    lines = [tag("tr", *_named(head, row)) for row in rows]
    return tag("table", tag("thead", tag("tr", *(tag("th", cell, scope="col") for cell in head))), tag("tbody", *lines))


def _named(head: Sequence[str], row: Iterable[str | Element]) -> Iterator[Element]:
    for name, cell in zip(head, row, strict=True):
        element = cell if isinstance(cell, Element) else tag("td", cell)
        element.set("data-head", readable(name))
        yield element
