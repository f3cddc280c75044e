"""The pages name what exists: files, events, reasons."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpushare import wire
from gpushare.deviceplugin.allocation.held import HoldReason

ROOT = Path(__file__).parent.parent
SKIPPED = {".venv", ".git", "artefacts", ".pytest_cache"}
PAGES = sorted(path for path in ROOT.rglob("*.md") if not SKIPPED & set(path.relative_to(ROOT).parts))
TROUBLES = (ROOT / "docs" / "troubleshooting.md").read_text()
# A path in backticks: folders and a name with one of the endings of our files.
_NAMED = re.compile(r"`([\w.-]+(?:/[\w.-]+)*\.(?:py|md|yaml|toml|c|h|proto))`")
_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def _files() -> set[str]:
    paths = (path.relative_to(ROOT) for path in ROOT.rglob("*") if path.is_file())
    return {path.as_posix() for path in paths if not SKIPPED & set(path.parts)}


FILES = _files()


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_of_pages_lead_to_files(page: Path) -> None:
    """A link to a file of the repository leads to one that exists."""
    links = [link for link in _LINK.findall(page.read_text()) if "://" not in link and not link.startswith("mailto:")]
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_named_in_pages_exist(page: Path) -> None:
    """A file in backticks is the end of some path of the repository; runs write those in artefacts."""
    named = {name for name in _NAMED.findall(page.read_text()) if not name.startswith("artefacts/")}
    assert sorted(name for name in named if not any(f"/{file}".endswith(f"/{name}") for file in FILES)) == []


def test_troubleshooting_explains_every_event_and_reason() -> None:
    """Each event, reason of a refusal and reason of a held container has a row."""
    words = {text for name, text in vars(wire).items() if name.startswith(("EVENT_", "REASON_"))}
    words |= {reason.value for reason in HoldReason}
    assert sorted(word for word in words if f"| `{word}`" not in TROUBLES) == []


def test_troubleshooting_names_no_unknown_event() -> None:
    """A row about an event is about one that a program writes."""
    events = {text for name, text in vars(wire).items() if name.startswith("EVENT_")}
    assert set(re.findall(r"`(GPUShare\w+)`", TROUBLES)) <= events
