"""Promises of e2e.flakes: a hunt over a test of the test's own, beside one of the suite, whose options each run needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from e2e.__main__ import main
from e2e.flakes import ROOT, seeds

CASE = """
from pathlib import Path

def test_passes_once():
    Path(__file__).with_name("began").mkdir()
"""


@pytest.mark.exhaustive("pytest is started for each run of a hunt")
def test_failures_are_listed_and_the_hunt_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each run has a line, and each failure is named; words that pytest does not know end the hunt."""
    (tmp_path / "test_case.py").write_text(CASE)
    first, second = seeds(7, 2)
    own = ["e2e/bursts/test_burst_plan.py", str(tmp_path / "test_case.py")]
    words = [
        "flakes",
        "--runs",
        "2",
        "--seed",
        "7",
        "--busy",
        "1",
        "--",
        *own,
        "-k",
        "passes_once",
        "--rootdir",
        str(ROOT),
    ]

    assert main(words) == 1
    shown = capsys.readouterr().out
    assert f"run 1, seed {first}: 1 passed" in shown
    assert f"run 2, seed {second}: 1 failed" in shown
    assert "::test_passes_once\n" in shown
    assert "1 of 2 runs had failures" in shown
    assert main([*words, "--no-such-option"]) == 1
    assert "--no-such-option" in capsys.readouterr().err
