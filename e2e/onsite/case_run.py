"""The cases for any cluster, run by a command in its own process.

Its administrator reads the lines of a console. pytest's own output, with tracebacks, goes to a log beside the report.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest

from e2e.onsite.tenancy import LEFT
from e2e.report import verdict_plugin
from e2e.report.verdict_files import SITE_JSON, SITE_JUNIT, make_ready, read
from e2e.report.verdicts import judgements
from e2e.site import SiteError

NAME: Final = "gpushare-console"
LOG_FILE: Final = "validation.log"
_CASES: Final = Path(__file__).parent / "test_onsite.py"
OK, FAILED, MISUSED, UNTRUE, INCOMPLETE, INTERRUPTED = 0, 1, 2, 3, 4, 130
CODES_HELP: Final = (
    "Exit code 0 if all held, 3 if something did not, 4 if a part could not be judged, 1 if nothing could be tried or the report "
    "could not be written, 2 for a wrong call, 130 after Ctrl-C or SIGTERM."
)
_BY_VERDICT: Final[Mapping[str, int]] = {"passed": OK, "failed": UNTRUE, "incomplete": INCOMPLETE}
# A validation is no test run: it may take hours, no warning fails it, and it writes one report alone.
_SETTINGS: Final = ("--timeout=0", "-W", "default", "-p", "no:cacheprovider", "-p", f"no:{verdict_plugin.NAME}", "-q")


class Console:
    """Writes lines to what was standard output before pytest, of which it is a plugin; ``log`` is the file of the rest."""

    __name__ = NAME

    def __init__(self, log: Path, descriptor: int) -> None:
        self.log = log
        self._descriptor = descriptor

    def say(self, line: str) -> None:
        """Write a line; a terminal that is gone does not end the run, which has yet to clean up."""
        with contextlib.suppress(OSError):
            os.write(self._descriptor, f"{line}\n".encode(errors="replace"))


@contextlib.contextmanager
def console(log: Path) -> Iterator[Console]:
    """Output from inside goes to ``log``. Raises OSError."""
    log.parent.mkdir(parents=True, exist_ok=True)
    sys.stdout.flush()
    descriptor = os.dup(1)
    try:
        with log.open("w") as file, contextlib.redirect_stdout(file):
            yield Console(log, descriptor)
    finally:
        os.close(descriptor)


def console_of(config: pytest.Config) -> Console | None:
    """That of this session; None in a session that a developer reads."""
    found = config.pluginmanager.get_plugin(NAME)
    return found if isinstance(found, Console) else None


class _Interruption:
    """Notices Ctrl-C and SIGTERM, for which pytest has the same exit code as for an error before the first case."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self.has_come = False
        self.is_explained = False

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Also called for ``pytest.exit`` and for errors of collection."""
        self.has_come = excinfo.type is KeyboardInterrupt
        if self.has_come:
            self._console.say("interrupted: removing what this run created")
        elif isinstance(excinfo.value, pytest.exit.Exception):
            self._console.say(str(excinfo.value.msg))
            self.is_explained = True


def add_report(parser: argparse.ArgumentParser) -> None:
    """``--report``."""
    parser.add_argument(
        "--report",
        type=Path,
        default=Path("validation"),
        metavar="DIR",
        help="folder of the report (default: %(default)s)",
    )


def report_folder(named: Path) -> Path:
    """The folder of a report, without an older report and ready to be written. Raises SiteError."""
    folder = named.absolute()
    try:
        make_ready(folder)
    except OSError as error:
        raise SiteError(f"nothing was tried: no report can be written into {folder}: {error}") from error
    return folder


def run_cases(cluster: str, folder: Path, options: Sequence[str] = ()) -> int:
    """Run them, and write the report into that ``report_folder``; the exit code. Ctrl-C, SIGTERM and SIGHUP clean up first."""
    # They act as SIGINT, on which the event loop cancels its task; an exception from here would not reach the task. A script's
    # background job begins with SIGINT ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        # One that is ignored stays so, as nohup wants it.
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda *_: signal.raise_signal(signal.SIGINT))
    reports = ("--site-report", str(folder), "--junit-xml", str(folder / SITE_JUNIT))
    argv = [str(_CASES), "--cluster", cluster, *reports, *_SETTINGS, *options]
    try:
        with console(folder / LOG_FILE) as lines:
            return _code(argv, lines, folder)
    except OSError as error:
        raise SiteError(f"nothing was tried: no log can be written into {folder}: {error}") from error


def _code(argv: Sequence[str], lines: Console, folder: Path) -> int:
    interruption = _Interruption(lines)
    try:
        code = pytest.main(list(argv), plugins=[interruption, lines])
    except KeyboardInterrupt:
        lines.say(f"interrupted in the clean-up; {LEFT}")
        return INTERRUPTED
    if interruption.has_come:
        return INTERRUPTED
    if code == pytest.ExitCode.USAGE_ERROR:
        return MISUSED
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        if not interruption.is_explained:
            lines.say(f"nothing was judged: an unexpected error ended the run; {lines.log} has the details")
        return FAILED
    try:
        verdict = judgements(read(folder / SITE_JSON), ())[""]
    except OSError:
        # It could not be written; the output has the error.
        return FAILED
    return _BY_VERDICT[verdict.word]
