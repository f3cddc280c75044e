"""Promises of gpushare.logs."""

from __future__ import annotations

import subprocess
import sys


def run(code: str) -> str:
    """What a program with our logging writes to standard error."""
    setup = "import logging\nfrom gpushare import logs\nlogs.configure(logging.INFO)\n"
    return subprocess.run([sys.executable, "-c", setup + code], capture_output=True, text=True, check=True).stderr


def test_one_event_is_one_line_with_time_and_level() -> None:
    """UTC with milliseconds; what a pod's author wrote cannot fake a line of ours."""
    text = run("logging.getLogger('x').info('bound pod=%s', 'a\\nb')")

    assert text.count("\n") == 1
    assert text.endswith("INFO x bound pod=a\\nb\n")
    assert text[10] == "T"
    assert text.split()[0].endswith("Z")


def test_levels_below_are_silent() -> None:
    """Debug lines, and the HTTP library's own."""
    assert run("logging.getLogger('x').debug('no')\nlogging.getLogger('httpx2').info('no')") == ""


def test_a_traceback_keeps_its_lines() -> None:
    """It is ours."""
    assert run("try:\n 1/0\nexcept ZeroDivisionError:\n logging.exception('broke')").count("\n") > 3
