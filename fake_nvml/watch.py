"""``fake-nvml show -w``: the cards again and again, until the caller is interrupted."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn, TextIO

from fake_nvml.show import render
from fake_nvml.state import State

# Between two looks for a change, and the longest without printing, in seconds.
_LOOK_SECONDS = 0.1
_REDRAW_SECONDS = 1.0
# On a terminal: the cursor to the first place, and nothing below it.
_CLEAR = "\x1b[H\x1b[J"


def watch(
    state: State, output: str, out: TextIO, *, monotonic: Callable[[], float], sleep: Callable[[float], None]
) -> NoReturn:
    """Print the cards on each change and each second; a terminal shows the last only. Ends by KeyboardInterrupt."""
    page = ""
    while True:
        printed = monotonic()
        content = state.read()
        page = render(output, content)
        out.write(_CLEAR + page if out.isatty() else page)
        out.flush()
        while monotonic() - printed < _REDRAW_SECONDS and state.read().header.sequence == content.header.sequence:
            sleep(_LOOK_SECONDS)
