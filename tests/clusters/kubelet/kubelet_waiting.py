"""Wait for a condition: the tests' only use of time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def until(condition: Callable[[], object], what: str = "condition") -> None:
    """Return as soon as ``condition()`` is true; fail after 20 s, which only a hang takes."""
    try:
        async with asyncio.timeout(300):
            while not condition():  # noqa: ASYNC110  # the state of other programs raises no event
                await asyncio.sleep(0.005)
    except TimeoutError:
        raise AssertionError(f"never came: {what}") from None
