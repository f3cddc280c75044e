"""The report of a failure, cut to what a person reads: no line and no comparison in it goes on for pages."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Final

import pytest
from _pytest._code.code import ExceptionChainRepr, ReprEntry

# Characters of a line, and lines of what was found wrong in one place.
_LONGEST: Final = 600
_MOST: Final = 60
# The mark of such a line.
_WRONG: Final = "E "


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Cut the report of a failed test."""
    report = yield
    if isinstance(report.longrepr, ExceptionChainRepr):
        for traceback, crash, _ in report.longrepr.chain:
            for entry in traceback.reprentries:
                if isinstance(entry, ReprEntry):
                    entry.lines = shortened(entry.lines)
            if crash is not None:
                crash.message = "\n".join(shortened(crash.message.splitlines(), mark=""))
    return report


def shortened(lines: Sequence[str], *, mark: str = _WRONG) -> list[str]:
    """The lines, each up to a length, and of those with the mark the first ones."""
    wrong = [number for number, line in enumerate(lines) if line.startswith(mark)]
    left_out = set(wrong[_MOST:])
    kept = [_cut(line) for number, line in enumerate(lines) if number not in left_out]
    return [*kept, f"{mark}  … ({len(left_out)} lines more)"] if left_out else kept


def _cut(line: str) -> str:
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}… ({len(line)} characters)"
