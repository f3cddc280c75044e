"""One log format for all programs: time, level, program part, then a constant sentence with ``key=value`` fields.

A program never waits for the reader of its log. A thread writes the lines; as long as it cannot, a bounded number of them is
kept and the others are dropped and counted.
"""

from __future__ import annotations

import logging
import os
import queue
import re
import select
import sys
import threading
import time
from typing import Final

from gpushare.bounds import LOG_BYTES_HELD, LOG_LINE_CHARACTERS

_LOG = logging.getLogger(__name__)

_SECOND: Final = "%Y-%m-%dT%H:%M:%S"
# How long the end of a program waits until what it has logged is written, in seconds.
_FLUSH_SECONDS: Final = 1.0
# The time between two writes, in which lines gather: waking the thread costs more than a line does.
_GATHER_SECONDS: Final = 0.05
# All that str.isprintable refuses: control characters, line separators, text direction, lone surrogates.
_UNPRINTABLE: Final = re.compile(r"[^ -~]")


class _OneLine(logging.Formatter):
    """Times in UTC. A record is one line, whatever a pod's author wrote; the lines of a traceback are indented.

    A program writes mostly lines of decisions, many in a second: the text of a second is made once.
    """

    def __init__(self) -> None:
        super().__init__()
        self.converter = time.gmtime
        self._second = -1
        self._time = ""

    def format(self, record: logging.LogRecord) -> str:
        if int(record.created) != self._second:
            self._second, self._time = int(record.created), self.formatTime(record, _SECOND)
        head = f"{self._time}.{int(record.msecs):03}Z {record.levelname} {record.name} "
        line = _cut(head + record.getMessage())
        if not line.isprintable():
            line = _escaped(line)
        if not record.exc_info:
            return line
        return line + "".join(
            f"\n  {_escaped(_cut(one))}" for one in self.formatException(record.exc_info).splitlines()
        )


def _cut(line: str) -> str:
    """Without its middle if it is too long, so that the fields behind a long value are still there."""
    if not LOG_LINE_CHARACTERS.exceeded(len(line)):
        return line
    half = LOG_LINE_CHARACTERS.most // 2
    return f"{line[:half]}...(cut, {len(line)} characters)...{line[-half:]}"


def _escaped(line: str) -> str:
    """The line with every character that a terminal would obey, or not show, as an escape of Python's."""
    return _UNPRINTABLE.sub(
        lambda found: found[0] if found[0].isprintable() else found[0].encode("unicode_escape").decode(), line
    )


class _Writer(logging.Handler):
    """Hands lines to a thread that writes them to ``descriptor``."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self.setFormatter(_OneLine())
        self.dropped = 0
        # Guards the counts. The handler's own lock is held while ``close`` waits for the thread.
        self._counting = threading.Lock()
        self._descriptor = descriptor
        # None ends the thread. ``_held`` bounds it: the bytes that are in it or being written.
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._held = 0
        self._reported = 0
        # A daemon: a program ends although its thread waits in a write.
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Queue the line, or count it as dropped."""
        try:
            line = self.format(record).encode(errors="backslashreplace") + b"\n"
        except Exception:
            # The arguments of a record do not match its message: logging's own report goes to standard error, which may block.
            line = f"ERROR {__name__} a line could not be formatted logger={record.name!r}\n".encode()
        with self._counting:
            if LOG_BYTES_HELD.exceeded(self._held + len(line)):
                self.dropped += 1
                return
            self._held += len(line)
        self._lines.put(line)

    def close(self) -> None:
        """Called by ``logging`` at the end of the program: wait a moment until all is written."""
        self._lines.put(None)
        self._thread.join(_FLUSH_SECONDS)
        super().close()

    def _run(self) -> None:
        is_ended, next_write = False, 0.0
        while not is_ended:
            lines = [self._lines.get()]
            time.sleep(max(next_write - time.monotonic(), 0))
            next_write = time.monotonic() + _GATHER_SECONDS
            while not self._lines.empty():
                lines.append(self._lines.get())
            is_ended = None in lines
            self._write([line for line in lines if line is not None])

    def _write(self, lines: list[bytes]) -> None:
        text = b"".join(lines)
        is_written = _write_all(self._descriptor, text)
        with self._counting:
            self._held -= len(text)
            self.dropped += 0 if is_written else len(lines)
            missing = self.dropped - self._reported if is_written and self._lines.empty() else 0
        if missing:
            self._reported += missing
            _LOG.warning("lines dropped as they could not be written count=%d", missing)


def _write_all(descriptor: int, text: bytes) -> bool:
    """Write it, for however long that takes; False if it cannot be written."""
    left = memoryview(text)
    while left:
        try:
            left = left[os.write(descriptor, left) :]
        except BlockingIOError:
            # Another program that has the same pipe may have made it one that does not block.
            select.select([], [descriptor], [])
        except OSError:
            return False
    return True


def configure(level: int) -> None:
    """Log to standard error from ``level`` on."""
    # Our lines do not have these, so logging need not find them out for each.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging._srcfile = None  # so that no stack is walked, as Python's logging HOWTO has it
    handlers: list[logging.Handler] = [_Writer(sys.stderr.fileno())] if sys.stderr else [logging.NullHandler()]
    logging.basicConfig(level=level, handlers=handlers, force=True)
    # asyncio logs which selector it uses.
    logging.getLogger("asyncio").setLevel(max(level, logging.WARNING))


def lines_dropped() -> int:
    """How many log lines were dropped since the start, as they could not be written."""
    return sum(handler.dropped for handler in logging.getLogger().handlers if isinstance(handler, _Writer))
