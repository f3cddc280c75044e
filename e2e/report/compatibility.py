"""Rows of docs/compatibility.md: one for each report that is kept. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from clusters.providers import BARE
from e2e.report.markup import markdown_table
from e2e.report.verdict_table import NodeFacts, Table, Validated
from e2e.report.verdicts import kind_of_cards, of_site

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


def markdown_of(reports: Mapping[str, Table]) -> str:
    """The table of these validations by their file names, newest first."""
    sites = [(table.site.run.date, name, table, table.site) for name, table in reports.items() if table.site]
    rows = [_row(name, table, site) for _, name, table, site in sorted(sites, key=lambda one: one[:2], reverse=True)]
    return markdown_table(_HEAD, rows) if rows else _NONE


def file_name_of(site: Validated) -> str:
    """``2026-11-27-existing-v1.36.3-Tesla-T4.json``: the models are in it, so that two machines of a day have two names."""
    models = dict.fromkeys(card.model for node in site.nodes for card in node.cards if card.model)
    parts = (site.run.date[:10], site.run.cluster, site.run.kubernetes or "none", *models)
    return re.sub(r"[^\w.-]+", "-", f"{'-'.join(parts)}.json")


def cards_of(nodes: Iterable[NodeFacts]) -> str:
    """``2 x Tesla T4 (15079 MiB)``, as many kinds as there are."""
    kinds = Counter(f"{card.model or 'model not known'} ({card.mib} MiB)" for node in nodes for card in node.cards)
    return ", ".join(f"{count} x {kind}" for kind, count in kinds.items())


def _row(name: str, table: Table, site: Validated) -> list[str]:
    run = site.run
    return [
        run.date[:10],
        run.cluster,
        run.kubernetes or "none",
        _each(node.runtime for node in site.nodes),
        _each(node.driver for node in site.nodes),
        f"{kind_of_cards(site)}: {cards_of(site.nodes) or 'none seen'}",
        f"{run.target}: {', '.join(site.programs) or _UNSEEN.get(run.cluster, 'not known')}",
        table.commit or "not known",
        of_site(table, site).word,
        f"[{name}]({FOLDER}/{name})",
    ]


def _each(facts: Iterable[str]) -> str:
    """Each of them once."""
    return ", ".join(dict.fromkeys(fact for fact in facts if fact)) or "not known"
