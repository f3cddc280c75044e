"""Promises of e2e.flakes: hunts over a test of the test's own, beside one of the suite, whose options each run needs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from e2e.__main__ import main
from e2e.flakes import ROOT, seeds

CASES = """
import time
from pathlib import Path

def test_passes_once():
    Path(__file__).with_name("began").mkdir()

def test_hangs_the_second_time():
    marks = Path(__file__).with_name("marks")
    if marks.exists():
        time.sleep(600)
    marks.mkdir()
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Outcomes are kept apart."""
    monkeypatch.setenv("GPUSHARE_CACHE", str(tmp_path / "cache"))


def words(tmp_path: Path, runs: int, case: str) -> list[str]:
    """The call, with one loop."""
    (tmp_path / "test_cases.py").write_text(CASES)
    own = "e2e/bursts/test_burst_plan.py"
    chosen = ["-k", case, "--rootdir", str(ROOT), "--timeout", "300"]
    hunt = ["flakes", "--runs", str(runs), "--seed", "7", "--busy", "1"]
    return [*hunt, "--", own, str(tmp_path / "test_cases.py"), *chosen]


@pytest.mark.exhaustive("pytest is started for each run of a hunt")
def test_failures_are_listed_and_the_hunt_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A finished run is not played again, and each failure is named."""
    first, second = seeds(7, 2)

    assert main(words(tmp_path, 1, "passes_once")) == 0
    assert f"run 1, seed {first}: 1 passed" in capsys.readouterr().out

    assert main(words(tmp_path, 2, "passes_once")) == 1
    shown = capsys.readouterr().out
    assert "2 runs by seed 7, 1 of them finished before" in shown
    assert f"run 1, seed {first}: 1 passed" in shown
    assert f"run 2, seed {second}: 1 failed" in shown
    assert "::test_passes_once\n" in shown
    assert "1 of 2 runs had failures" in shown


@pytest.mark.exhaustive("pytest is started for each run of a hunt")
def test_ctrl_c_ends_a_hunt_that_can_go_on(tmp_path: Path) -> None:
    """The loops beside it end too, else its output would stay open."""
    command = [sys.executable, "-m", "e2e", *words(tmp_path, 2, "hangs")]
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    # It would be ignored in a script's background job, and in what this starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with subprocess.Popen(
        command, cwd=ROOT, env=variables, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as hunt:
        assert hunt.stdout is not None
        assert any(line.startswith("run 1, ") for line in hunt.stdout)
        os.killpg(hunt.pid, signal.SIGINT)
        rest = hunt.stdout.read()

    assert "1 of 2 runs are finished: the same call goes on with the next" in rest
    assert hunt.returncode == 130


def test_words_that_pytest_does_not_know_end_a_hunt(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No run after it could begin either."""
    assert main([*words(tmp_path, 2, "once"), "--no-such-option"]) == 1
    assert "--no-such-option" in capsys.readouterr().err
