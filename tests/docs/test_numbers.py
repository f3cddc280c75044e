"""docs/numbers.md quotes what other pages publish, and names commands that exist."""

from __future__ import annotations

import importlib.util
import re
from typing import Final

import pytest

from tests.tracked_files import ROOT

PAGE: Final = ROOT / "docs" / "numbers.md"
ROWS: Final = re.findall(r"^\| (.*) \| \[.*\]\((.*)\) \| (.*) \|$", PAGE.read_text(), re.MULTILINE)


@pytest.mark.parametrize(("number", "page", "command"), ROWS, ids=[row[0] for row in ROWS])
def test_a_number_has_its_page_and_a_command(number: str, page: str, command: str) -> None:
    """The figures stand on the page, and the command is a target of make or a module, with files that are there."""
    published = " ".join((PAGE.parent / page).read_text().split())
    quoted = [text for text in re.findall(r"`(.+?)`", number) if not text.startswith("/")]
    assert [text for text in quoted if text not in published] == []
    target, module = re.search(r"`make ([\w-]+)", command), re.search(r"python -m ([\w.]+)", command)
    if target:
        assert f"\n{target[1]}: " in (ROOT / "Makefile").read_text()
    elif module:
        assert importlib.util.find_spec(module[1])
        assert [name for name in re.findall(r"\S+/\S+\.yaml", command) if not (ROOT / name).exists()] == []
    else:
        assert command.startswith("none is kept: ")
