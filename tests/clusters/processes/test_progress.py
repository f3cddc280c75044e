"""Promises of clusters.processes.progress."""

from __future__ import annotations

import io

from clusters.processes.progress import Progress
from tests.servers import until


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


async def test_terminal_line_is_renewed_and_removed_at_the_end() -> None:
    """The cursor stays at the start of the next line."""
    out = Terminal()
    with Progress("build", "building kind", out) as progress:
        progress.detail = "3 of 9"
        await until(lambda: "\r\033[Kbuild: building kind: 3 of 9, " in out.getvalue())

    assert out.getvalue().endswith("\r\033[K")
