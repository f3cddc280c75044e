"""Promises of gpushare.logs."""

from __future__ import annotations

import subprocess
import sys

import pytest

SETUP = "import logging\nfrom gpushare import logs\nlogs.configure(logging.INFO)\n"


def run(code: str) -> str:
    """The output of a program with our logging to standard error."""
    return subprocess.run([sys.executable, "-c", SETUP + code], capture_output=True, text=True, check=True).stderr


def start(code: str) -> subprocess.Popen[str]:
    """Such a program, its standard error a pipe that the test reads or does not."""
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", SETUP + code], stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def test_one_event_is_one_line_with_time_and_level() -> None:
    """UTC with milliseconds; what a pod's author wrote cannot fake a line of ours."""
    text = run("logging.getLogger('x').info('bound pod=%s', 'a\\nb')")

    assert text.count("\n") == 1
    assert text.endswith("INFO x bound pod=a\\nb\n")
    assert text[10] == "T"
    assert text.split()[0].endswith("Z")


def test_levels_below_are_silent() -> None:
    """Debug lines, and those of asyncio below warnings."""
    assert run("logging.getLogger('x').debug('no')\nlogging.getLogger('asyncio').info('no')") == ""


def test_a_full_pipe_stops_no_program() -> None:
    """Standard error is a pipe that is not read: all lines are logged without waiting, and the program ends."""
    code = (
        "for number in range(50_000):\n logging.getLogger('x').info('line=%d', number)\n"
        "print(logs.lines_dropped() > 0)\n"
    )
    with start(code) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "True\n"
        assert program.wait(timeout=300) == 0


def test_dropped_lines_are_counted_and_reported() -> None:
    """Once the pipe is read again: the lines in their order, and one with the number of the missing ones."""
    code = (
        "for number in range(50_000):\n logging.getLogger('x').info('line=%d', number)\n"
        "print(logs.lines_dropped(), flush=True)\n"
        "input()\n"
        "logging.getLogger('x').info('line=50000')\n"
    )
    with start(code) as program:
        assert program.stdout is not None
        assert program.stdin is not None
        assert program.stderr is not None
        dropped = int(program.stdout.readline())
        lines = [program.stderr.readline()]
        while "dropped" not in lines[-1]:
            lines.append(program.stderr.readline())
        program.stdin.write("\n")
        program.stdin.close()
        rest = program.stderr.readlines()

    numbers = [int(line.rpartition("line=")[2]) for line in lines[:-1]]
    assert numbers == list(range(50_000 - dropped))
    assert lines[-1].endswith(f" WARNING gpushare.logs lines dropped as they could not be written count={dropped}\n")
    assert [line.rpartition(" ")[2] for line in rest] == ["line=50000\n"]


def test_a_closed_pipe_stops_no_program() -> None:
    """The reader of the log has ended."""
    with start("for number in range(10_000):\n logging.getLogger('x').info('line')\nprint('done')") as program:
        assert program.stdout is not None
        assert program.stderr is not None
        program.stderr.close()
        assert program.stdout.read() == "done\n"
        assert program.wait(timeout=300) == 0


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("a\nb", r"a\nb"),
        ("a\r\tb", r"a\r\tb"),
        ("\x1b[2J", r"\x1b[2J"),
        ("\x7f\x9b", r"\x7f\x9b"),
        ("\u202eevil\u2066", r"\u202eevil\u2066"),
        ("a\u2028b\u2029", r"a\u2028b\u2029"),
        ("\ud800", r"\ud800"),
        ("\U000e0041", r"\U000e0041"),
        ("Zürich 東京", "Zürich 東京"),
    ],
)
def test_control_characters_are_escaped(written: str, shown: str) -> None:
    """One record is one line, and no character of it drives a terminal or turns the text around."""
    text = run(f"logging.getLogger('x').info('pod=%s fit=%d', {written!a}, 3)")

    assert text.endswith(f" pod={shown} fit=3\n")
    assert text.count("\n") == 1


def test_a_long_line_loses_its_middle() -> None:
    """A line reports how long it was, and the fields behind a long value are still there."""
    text = run("logging.getLogger('x').info('pod=%s fit=%d', 'x' * 20_000_000, 3)")

    assert "Z INFO x pod=xxx" in text
    assert "xxx...(cut, 20000" in text
    assert text.endswith("xxx fit=3\n")
    assert len(text) < 5000


def test_a_traceback_fakes_no_line() -> None:
    """A traceback keeps its lines, which are indented, and the characters of an error's text are escaped in it."""
    error = "ValueError('a\\n2026-01-01T00:00:00.000Z INFO x bound\\x1b[2J')"
    text = run(f"try:\n raise {error}\nexcept ValueError:\n logging.exception('broke')")
    first, *rest = text.splitlines()

    assert first.endswith("ERROR root broke")
    assert len(rest) > 3
    assert all(line.startswith("  ") for line in rest)
    assert "\x1b" not in text
