"""Makes a history that fails short, by leaving operations out while it still fails (delta debugging)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from e2e.parity.histories.operations import History

Fails = Callable[[History], Awaitable[bool]]


async def shrink(history: History, fails: Fails, *, most_runs: int) -> History:
    """A part of ``history`` that still fails, and of which (within ``most_runs`` runs) no operation can be left out."""
    size, runs = max(len(history) // 2, 1), 0
    while runs < most_runs:
        shorter = None
        # From the end: what comes late seldom is what others build upon.
        for start in range(len(history) - size, -size, -size):
            candidate = history[: max(start, 0)] + history[start + size :]
            runs += 1
            if candidate and await fails(candidate):
                shorter = candidate
                break
            if runs >= most_runs:
                break
        if shorter is not None:
            history, size = shorter, min(size, max(len(shorter) // 2, 1))
        elif size == 1:
            return history
        else:
            size //= 2
    return history
