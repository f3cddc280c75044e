"""Writes docs/compatibility.md from the reports of validations that are kept in docs/compatibility.

``make generate`` runs it; ``.ci/run`` fails if the page is out of date.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from e2e.report.compatibility import FOLDER, markdown_of
from e2e.report.verdict_files import read

_HERE: Final = Path(__file__).parent
_INTRODUCTION: Final = """# Compatibility

Written by `make generate` from the reports in `docs/compatibility`; do not edit. Each row is a
validation that was run, and its last cell names the report. The commit is that of the suite that
judged. Rows with simulated cards are no evidence about a driver or a card.

To add a row, put the `site_report.json` of a run into `docs/compatibility/`, under the name that
its HTML page proposes, and run `make generate`; a second run on a day, of the same kind of cluster
and the same cards, needs another name. The file names nodes, cards and the API server of the site.
"""


def page(folder: Path) -> str:
    """The whole page."""
    return f"{_INTRODUCTION}\n{markdown_of({path.name: read(path) for path in folder.glob('*.json')})}"


if __name__ == "__main__":
    (_HERE / "compatibility.md").write_text(page(_HERE / FOLDER))
