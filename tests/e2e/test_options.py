"""A run takes the options that e2e/README.md lists."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]


def test_all_words_of_the_readme_are_options_of_make_e2e() -> None:
    """Each option of the page is one of ``make e2e``, though some are of cases in one folder only."""
    readme = (CHECKOUT / "e2e/README.md").read_text()
    words = {word for text in re.findall(r'ARGS="([^"]*)"', readme) for word in shlex.split(text)}
    options = {word for word in words if word.startswith("--")}
    assert {"--bursts", "--burst-seed"} <= options
    argv = [sys.executable, "-m", "pytest", "e2e", "--help", "-p", "no:cacheprovider"]
    done = subprocess.run(argv, cwd=CHECKOUT, capture_output=True, text=True, timeout=300, check=False)

    assert {option for option in options if f"  {option}" not in done.stdout} == set()
