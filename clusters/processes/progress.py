"""Says now and then what is going on and for how long: a line that renews itself on a terminal, else one every quarter minute."""

from __future__ import annotations

import threading
import time
from typing import Final, TextIO

# How often a line of progress comes, in seconds; on a terminal the line is renewed instead.
_LINE_SECONDS: Final = 15.0
_RENEW_SECONDS: Final = 0.5


class Progress:
    """A context for a long step. ``text`` names it, ``detail`` is how far it is; both may change in it."""

    def __init__(self, command: str, text: str, out: TextIO, expected: str = "") -> None:
        """Which command speaks, what it does, and what is known of how long that takes (``once; minutes``)."""
        self.text = text
        self.detail = ""
        self._command = command
        self._expected = f" ({expected})" if expected else ""
        self._out = out
        self._renews = out.isatty()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._start = time.monotonic()

    def __enter__(self) -> Progress:
        self.line(f"{self.text}{self._expected}")
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._ended.set()
        self._thread.join()
        if self._renews:
            self._out.write("\r\033[K")

    def line(self, text: str) -> None:
        """A line of its own."""
        print(f"{self._command}: {text}, {time.monotonic() - self._start:.0f} s", file=self._out, flush=True)

    def _run(self) -> None:
        while not self._ended.wait(_RENEW_SECONDS if self._renews else _LINE_SECONDS):
            if self._renews:
                self._out.write(f"\r\033[K{self._command}: {self._line()}")
                self._out.flush()
            else:
                print(f"{self._command}: {self._line()}", file=self._out, flush=True)

    def _line(self) -> str:
        detail = f": {self.detail}" if self.detail else ""
        return f"{self.text}{detail}, {time.monotonic() - self._start:.0f} s"
