"""The notes of a release: its section of the CHANGELOG. Pure."""

from __future__ import annotations

import re


def notes_of(changelog: str, version: str) -> str:
    """The section of a version without its heading; "" if there is none, or nothing in it."""
    heading = re.search(rf"(?m)^## \[{re.escape(version)}\].*\n", changelog)
    if heading is None:
        return ""
    section = re.split(r"(?m)^## ", changelog[heading.end() :], maxsplit=1)[0].strip()
    # Headings alone are no notes.
    has_text = any(line and not line.startswith("#") for line in section.splitlines())
    return f"{section}\n" if has_text else ""
