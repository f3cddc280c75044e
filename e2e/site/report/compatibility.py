"""Rows of docs/compatibility.md: one for each report that is kept. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from clusters.providers import BARE
from e2e.report.pages import markdown_table
from e2e.site.report.site_verdict import kind_of_cards, verdict_of
from e2e.site.site_report import NodeFacts, SiteReport

FOLDER: Final = "compatibility"
_HEAD: Final = (
    "date",
    "cluster",
    "Kubernetes",
    "runtime",
    "driver",
    "cards",
    "programs",
    "suite at",
    "verdict",
    "report",
)
# Programs that no pod runs.
_UNSEEN: Final[Mapping[str, str]] = {BARE: "the suite's own"}
_NONE: Final = "No validation has been kept yet, so nothing is claimed here.\n"


def markdown_of(reports: Mapping[str, SiteReport]) -> str:
    """The table of these reports by their file names, newest first."""
    newest_first = sorted(reports.items(), key=lambda item: (item[1].started, item[0]), reverse=True)
    return markdown_table(_HEAD, [_row(name, report) for name, report in newest_first]) if reports else _NONE


def file_name_of(report: SiteReport) -> str:
    """``2026-11-27-existing-v1.36.3-Tesla-T4.json``: the models are in it, so that two machines of a day have two names."""
    models = dict.fromkeys(card.model for node in report.nodes for card in node.cards if card.model)
    parts = (report.started[:10], report.kind, report.kubernetes or "none", *models)
    return re.sub(r"[^\w.-]+", "-", f"{'-'.join(parts)}.json")


def cards_of(nodes: Iterable[NodeFacts]) -> str:
    """``2 x Tesla T4 (15079 MiB)``, as many kinds as there are."""
    kinds = Counter(f"{card.model or 'model not known'} ({card.mib} MiB)" for node in nodes for card in node.cards)
    return ", ".join(f"{count} x {kind}" for kind, count in kinds.items())


def _row(name: str, report: SiteReport) -> list[str]:
    cards = f"{kind_of_cards(report)}: {cards_of(report.nodes) or 'none seen'}"
    return [
        report.started[:10],
        report.kind,
        report.kubernetes or "none",
        _each(node.runtime for node in report.nodes),
        _each(node.driver for node in report.nodes),
        cards,
        f"{report.target}: {', '.join(report.programs) or _UNSEEN.get(report.kind, 'not known')}",
        report.commit or "not known",
        verdict_of(report).word,
        f"[{name}]({FOLDER}/{name})",
    ]


def _each(facts: Iterable[str]) -> str:
    """Each of them once."""
    return ", ".join(dict.fromkeys(fact for fact in facts if fact)) or "not known"
