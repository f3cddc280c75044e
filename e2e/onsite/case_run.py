"""The cases for any cluster, run by a command in its own process."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest

FOLDER: Final = Path(__file__).parent
OK, FAILED, MISUSED, UNTRUE, INTERRUPTED = 0, 1, 2, 3, 130
CODES_HELP: Final = "Exit code 0 if all held, 3 if something did not, 1 if it could not be tried, 2 for a wrong call."
_CODES: Final[Mapping[int, int]] = {
    pytest.ExitCode.OK: OK,
    pytest.ExitCode.TESTS_FAILED: UNTRUE,
    pytest.ExitCode.INTERRUPTED: INTERRUPTED,
    pytest.ExitCode.USAGE_ERROR: MISUSED,
}
_FILES: Final = ("test_onsite.py", "test_recording.py")


def run_cases(folder: Path, cluster: str, report: Path, options: Sequence[str] = ()) -> int:
    """Run them, and write the report; the exit code. Ctrl-C and SIGTERM clean up first."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    argv = [str(folder / name) for name in _FILES]
    argv += ["--cluster", cluster, "--site-report", str(report), "--verdicts", str(report)]
    argv += ["-p", "no:cacheprovider", "-q", *options]
    return _CODES.get(pytest.main(argv), FAILED)
