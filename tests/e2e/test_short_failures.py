"""A failed case shows its cause, and not pages of what was compared."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.nested_pytest import run_pytest

_CASE = """
def test_answer():
    answer = '{"Pod": "' + "x" * 9000 + '"}'
    assert answer == "", answer

def test_fields():
    assert {f"field {number}": 1 for number in range(300)} == {}
"""


def test_a_failure_is_read_without_scrolling(tmp_path: Path) -> None:
    """The cause of a failure comes within a screen, even if pytest is asked for all of it (-vv)."""
    (tmp_path / "test_case.py").write_text(_CASE)
    run = run_pytest(tmp_path, "-p", "e2e.short_failures", "-vv")

    assert "2 failed" in run.stdout, run.stdout + run.stderr
    assert "characters)" in run.stdout
    assert "lines more)" in run.stdout
    assert len(run.stdout) < 16_000
    assert max(map(len, run.stdout.splitlines())) < 1000
