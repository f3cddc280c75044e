"""Tables as Markdown and as text, and the frame of a page in HTML. Pure."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from typing import Final
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from e2e.report.markup import tag

# Each colour is named once for a light and once for a dark screen; paper is light.
LIGHT: Final = {
    "ink": "#1a1a1a", "paper": "#ffffff", "head": "#f0f0f0", "line": "#b5b5b5", "faint": "#555555", "code": "#f6f6f6",
    "link": "#0b57d0", "good": "#e3f4e3", "bad": "#fadcdc", "doubt": "#fdf3d0", "left": "#eeeeee",
}  # fmt: skip
DARK: Final = {
    "ink": "#e8e8e8", "paper": "#16181c", "head": "#262a31", "line": "#4b515b", "faint": "#b0b5bd", "code": "#20242a",
    "link": "#8ab4f8", "good": "#173d22", "bad": "#5a1d1f", "doubt": "#4a3c0c", "left": "#2b2f36",
}  # fmt: skip
_STYLE: Final = """
body { font: 15px/1.45 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 2rem auto; padding: 0 1rem;
  max-width: 80rem; }
h1 { font-size: 1.5rem; margin-bottom: 0; } h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; }
h3 { font-size: 1rem; margin: 1.5rem 0 .25rem; overflow-wrap: anywhere; } h4 { font-size: .9rem; margin: .6rem 0 .1rem; }
a { color: var(--link); } table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th, td { border: 1px solid var(--line); padding: .25rem .5rem; text-align: left; vertical-align: top; overflow-wrap: break-word; }
th { background: var(--head); } tbody th { font-weight: normal; } small { color: var(--faint); display: block; }
pre, .text { white-space: pre-wrap; overflow-wrap: anywhere; }
pre { font-size: .8rem; background: var(--code); padding: .5rem; margin: .1rem 0; max-height: 24rem; overflow: auto; }
.verdict { font-size: 1.15rem; padding: .6rem .8rem; border: 2px solid; border-left-width: .6rem; }
.passed, .pass, .ok { background: var(--good); }
.failed, .fail, .wrong, .error { background: var(--bad); font-weight: bold; }
.incomplete, .partial, .not-judged, .unknown, .warning { background: var(--doubt); }
.skipped, .not-run, .not-applicable { background: var(--left); }
tbody th.failed, tbody th.fail { font-weight: bold; } .finder { margin: 1rem 0; } .finder input { font: inherit; }
thead { display: table-header-group; } tr, .verdict { break-inside: avoid; } h2, h3 { break-after: avoid; }
@media screen and (max-width: 70rem) { table, tbody, tbody tr:not([hidden]), tbody tr > * { display: block; }
  thead { display: none; }
  tbody tr { border: 1px solid var(--line); margin-bottom: .5rem; } tbody tr > * { border: 0; overflow-wrap: anywhere; }
  [data-head]:not([data-head=""])::before { content: attr(data-head) ": "; color: var(--faint); font-weight: normal; } }
@media print { body { margin: 0; max-width: none; font-size: 11px; } pre { max-height: none; } .finder { display: none; }
  * { print-color-adjust: exact; } @page { margin: 12mm; } }
"""


def page(title: str, heading: str, *parts: Element, script: str = "") -> str:
    """A whole page that fetches nothing, for light and dark screens and for paper; it runs ``script`` and no other."""
    colours = [" ".join(f"--{name}: {value};" for name, value in each.items()) for each in (LIGHT, DARK)]
    scheme = f":root {{ color-scheme: light dark; {colours[0]} }}\n"
    scheme += f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {colours[1]} }} }}"
    # Even if a browser took a text for markup, it would fetch and run nothing.
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    allowed = f"default-src 'none'; style-src 'unsafe-inline'{f'; script-src {chr(39)}sha256-{digest}{chr(39)}' if script else ''}"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        Element("meta", {"http-equiv": "Content-Security-Policy", "content": allowed}),
        tag("meta", name="viewport", content="width=device-width"),
        tag("title", title),
        tag("style", scheme + _STYLE),
    )
    body = tag("body", tag("main", tag("h1", heading), *parts), *([tag("script", script)] if script else []))
    return f"<!DOCTYPE html>\n{ElementTree.tostring(tag('html', head, body, lang='en'), encoding='unicode', method='html')}\n"


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of any texts."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(_escaped(cell) for cell in line)} |\n" for line in lines)


def text_table(rows: Sequence[Sequence[str]]) -> list[str]:
    """A line for each row, in columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def _escaped(text: str) -> str:
    """One line, in which nothing ends a cell or begins a tag."""
    return " ".join(text.split()).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")
