"""The report as one page for a change board: no script, nothing from elsewhere, and it prints well. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final
from xml.etree.ElementTree import Element

import msgspec
import yaml

from e2e.report.markup import table, tag
from e2e.report.pages import page
from e2e.site.findings import in_order
from e2e.site.report.compatibility import cards_of, file_name_of, markdown_of
from e2e.site.report.site_verdict import kind_of_cards, verdict_of
from e2e.site.site_report import (
    NOT_RUN,
    WHOLE_CLUSTER,
    Judgement,
    NodeFacts,
    SiteReport,
    cells_of,
    columns_of,
    pairs_of,
    rows_of,
    title_of,
)

_Rows = list[list[str | Element]]

_UNKNOWN: Final = "not known"
_WORST_FIRST: Final[tuple[Judgement, ...]] = ("wrong", "unknown", "ok")


def to_html(report: SiteReport) -> str:
    """The page."""
    verdict = verdict_of(report)
    title = f"gpushare on {report.server or report.kind}: {verdict.title}"
    sections = (
        ("Cases", _cases(report)),
        ("Findings", [_findings(report)]),
        ("Not judged", [_left_out(report)]),
        ("Preflight", [_preflight(report)]),
        ("Nodes", [_nodes(report)]),
        ("Site", _site(report)),
        ("Compatibility", _compatibility(report)),
        ("Recordings", _recordings(report)),
    )
    parts = [element for name, body in sections for element in (tag("h2", name), *body)]
    line = tag("p", tag("strong", verdict.line), class_=f"verdict {verdict.word}")
    return page(title, "Validation of gpushare", line, *parts)


def _site(report: SiteReport) -> Iterator[Element]:
    facts = {
        "started": f"{report.started} (UTC), for {report.seconds:.0f} s",
        "kind of cluster": report.kind,
        "API server": report.server,
        "Kubernetes": report.kubernetes,
        "cards": kind_of_cards(report),
        "judged": report.target,
        "programs": "\n".join(report.programs),
        "suite at": report.commit,
    }
    yield table(("", "what the run saw"), ((name, _text(value or _UNKNOWN)) for name, value in facts.items()))


def _nodes(report: SiteReport) -> Element:
    head = ("node", "kubelet", "runtime", "driver", "kernel", "system", "cards", "MIG", "MPS", "other GPU plugins")
    return _table_or_none(head, [_node(node) for node in report.nodes])


def _node(node: NodeFacts) -> list[str]:
    facts = [node.name, node.kubelet, node.runtime, node.driver, node.kernel, f"{node.system} {node.architecture}"]
    mig = ", ".join(dict.fromkeys(card.mig or _UNKNOWN for card in node.cards))
    facts += [cards_of([node]), mig, node.mps]
    return [*(fact.strip() or _UNKNOWN for fact in facts), ", ".join(node.other_resources) or "none"]


def _preflight(report: SiteReport) -> Element:
    lines = sorted(report.preflight, key=lambda line: _WORST_FIRST.index(line.judgement))
    rows: _Rows = [
        [tag("td", line.judgement, class_=line.judgement), line.name, line.subject, _text(line.text), _text(line.todo)]
        for line in lines
    ]
    return _table_or_none(("is", "looked at", "on", "found", "what to do"), rows)


def _cases(report: SiteReport) -> Iterator[Element]:
    """The matrix, then the reasons that its numbers stand for."""
    cells, nodes, expected = cells_of(report), columns_of(report), set(pairs_of(report))
    notes: dict[str, int] = {}
    rows: _Rows = []
    for name, promise in rows_of(report).items():
        row: list[str | Element] = [tag("td", title_of(name), tag("small", promise))]
        for node in nodes:
            result = cells.get((name, node))
            number = f" [{notes.setdefault(result.reason, len(notes) + 1)}]" if result and result.reason else ""
            word = result.verdict if result else NOT_RUN if (name, node) in expected else ""
            kind = "not-applicable" if result and result.lacks_precondition else word.replace(" ", "-")
            row.append(tag("td", f"{word}{number}", class_=kind))
        rows.append(row)
    yield _table_or_none(("case", *(node or WHOLE_CLUSTER for node in nodes)), rows)
    if notes:
        yield tag("ol", *(tag("li", reason, class_="text") for reason in notes))


def _findings(report: SiteReport) -> Element:
    rows: _Rows = [
        [tag("td", one.severity, class_=one.severity), one.rule, one.subject, _text(one.text), _text(one.todo)]
        for one in in_order(report.findings)
    ]
    return _table_or_none(("severity", "invariant", "on", "found", "what to do"), rows)


def _left_out(report: SiteReport) -> Element:
    cells = cells_of(report)
    nodes_by_reason: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name, node in pairs_of(report):
        result = cells.get((name, node))
        if result is None or result.verdict == "not judged":
            reason = (result.reason or "no reason is given") if result else NOT_RUN
            nodes_by_reason[name, reason].append(node or WHOLE_CLUSTER)
    rows: _Rows = [["", "", _text(line)] for line in report.not_run]
    rows += [[title_of(name), ", ".join(nodes), _text(reason)] for (name, reason), nodes in nodes_by_reason.items()]
    return _table_or_none(("case", "on", "why"), rows)


def _compatibility(report: SiteReport) -> Iterator[Element]:
    name = file_name_of(report)
    yield tag("p", f"Keep this report as docs/compatibility/{name}; make generate then writes this row:")
    yield tag("pre", markdown_of({name: report}))


def _recordings(report: SiteReport) -> Iterator[Element]:
    for node, box in report.recordings.items():
        text = yaml.safe_dump(msgspec.to_builtins(box), sort_keys=False, allow_unicode=True)
        yield tag("details", tag("summary", f"Cards of {node}, for fake-nvml"), tag("pre", text))
    if not report.recordings:
        yield tag("p", "None.")


def _text(text: str) -> Element:
    """A cell that keeps the lines of its text."""
    return tag("td", text, class_="text")


def _table_or_none(head: Sequence[str], rows: Sequence[Sequence[str | Element]]) -> Element:
    return table(head, rows) if rows else tag("p", "None.")
