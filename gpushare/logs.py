"""One log format for all programs: time, level, program part, then a constant sentence with ``key=value`` fields."""

from __future__ import annotations

import logging
import sys
import time

_FORMAT = "%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s %(message)s"


class _OneLine(logging.Formatter):
    """Times in UTC; what a pod's author wrote cannot fake a line of ours."""

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        # A traceback is ours and has its own lines.
        return text if record.exc_info else text.replace("\n", "\\n").replace("\r", "\\r")


def configure(level: int) -> None:
    """Log to standard error from ``level`` on."""
    # What our lines do not say need not be found out for each.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    handler = logging.StreamHandler(sys.stderr)
    formatter = _OneLine(_FORMAT, datefmt="%Y-%m-%dT%H:%M:%S")
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    logging.basicConfig(level=level, handlers=[handler], force=True)
    # The HTTP library says a line a request; that is ours to decide.
    for noisy in ("httpx2", "httpcore2", "httpx", "httpcore", "asyncio"):
        logging.getLogger(noisy).setLevel(max(level, logging.WARNING))
