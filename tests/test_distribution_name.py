"""The name of our distribution: `gpushare` on the Python package index is the package of a stranger."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# An installer, and behind it the bare name, with or without extras.
ADVICE = re.compile(r"(?:pip3?|pipx|uv|uvx)\b[^\n]*?[\s'\"`]gpushare(?![-\w./:])")


def test_no_file_advises_to_install_the_strangers_package() -> None:
    """A user that follows such advice installs a program that is not ours."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    found = []
    for name in filter(None, listed.decode().split("\0")):
        path = ROOT / name
        if path != Path(__file__) and path.is_file() and not path.is_symlink():
            found += [f"{name}: {match[0]}" for match in ADVICE.finditer(path.read_text(errors="replace"))]

    assert found == []


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("pip install gpushare", True),
        ("pip install 'gpushare[bench]'", True),
        ("python -m pip install --upgrade gpushare", True),
        ("uv pip install gpushare", True),
        ("pip install gpushare-scheduler", False),
        ("pip install '.[bench]'", False),
        ("pip install gpushare.whl", False),
    ],
)
def test_such_advice_would_be_found(text: str, is_found: bool) -> None:
    """The search finds each way of writing it, and no other name."""
    assert bool(ADVICE.search(text)) is is_found


def test_the_distribution_has_its_own_name() -> None:
    """The product's distribution is called gpushare-scheduler; its import name stays."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert project["name"] == "gpushare-scheduler"


def test_no_extra_depends_on_the_strangers_package() -> None:
    """An extra that includes another one names our distribution."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]
    own = [one for one in wanted if one.startswith("gpushare")]

    assert own == [one for one in own if one.startswith("gpushare-scheduler[")]
    assert own
