"""The cases for any cluster, run by a command in its own process."""

from __future__ import annotations

import argparse
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest

from e2e.site.report.report_files import JSON_FILE, read_report
from e2e.site.report.site_verdict import verdict_of

_CASES: Final = Path(__file__).parent / "test_onsite.py"
OK, FAILED, MISUSED, UNTRUE, INCOMPLETE, INTERRUPTED = 0, 1, 2, 3, 4, 130
CODES_HELP: Final = (
    "Exit code 0 if all held, 3 if something did not, 4 if a part could not be judged, 1 if nothing could be tried, 2 for a wrong "
    "call."
)
_CODES: Final[Mapping[int, int]] = {
    pytest.ExitCode.OK: OK,
    pytest.ExitCode.TESTS_FAILED: UNTRUE,
    pytest.ExitCode.INTERRUPTED: INTERRUPTED,
    pytest.ExitCode.USAGE_ERROR: MISUSED,
}
_BY_VERDICT: Final[Mapping[str, int]] = {"passed": OK, "failed": UNTRUE, "incomplete": INCOMPLETE}


def add_report(parser: argparse.ArgumentParser) -> None:
    """``--report``."""
    parser.add_argument(
        "--report",
        type=Path,
        default=Path("validation"),
        metavar="DIR",
        help="folder of the report (default: %(default)s)",
    )


def run_cases(cluster: str, report: Path, options: Sequence[str] = ()) -> int:
    """Run them, and write the report; the exit code. Ctrl-C and SIGTERM clean up first."""
    # As SIGINT, on which the event loop cancels what it does: an exception from here would leave that where it is.
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    argv = [str(_CASES), "--cluster", cluster, "--site-report", str(report), "--verdicts", str(report)]
    argv += ["-p", "no:cacheprovider", "-q", *options]
    code = _CODES.get(pytest.main(argv), FAILED)
    return code if code != OK else _BY_VERDICT[verdict_of(read_report(report / JSON_FILE)).word]
