"""One log format for all programs: time, level, program part, then a constant sentence with ``key=value`` fields."""

from __future__ import annotations

import logging
import sys
import time
from typing import Final

_SECOND: Final = "%Y-%m-%dT%H:%M:%S"


class _OneLine(logging.Formatter):
    """Times in UTC; what a pod's author wrote cannot fake a line of ours.

    A line a decision is what a program writes most of: a second's time is put into words once.
    """

    def __init__(self) -> None:
        super().__init__("%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s %(message)s", _SECOND)
        self.converter = time.gmtime
        self._second = -1
        self._time = ""

    def format(self, record: logging.LogRecord) -> str:
        if record.exc_info:
            # A traceback is ours and has its own lines.
            return super().format(record)
        if int(record.created) != self._second:
            self._second, self._time = int(record.created), self.formatTime(record, _SECOND)
        said = f"{self._time}.{int(record.msecs):03}Z {record.levelname} {record.name} {record.getMessage()}"
        return said.replace("\n", "\\n").replace("\r", "\\r")


def configure(level: int) -> None:
    """Log to standard error from ``level`` on."""
    # What our lines do not say need not be found out for each.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging._srcfile = None  # so that no stack is walked, as Python's logging HOWTO has it
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_OneLine())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    # The HTTP library says a line a request; that is ours to decide.
    for noisy in ("httpx2", "httpcore2", "httpx", "httpcore", "asyncio"):
        logging.getLogger(noisy).setLevel(max(level, logging.WARNING))
