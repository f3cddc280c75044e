"""Let time-outs elapse immediately: move the event loop's clock on instead of waiting, so no test depends on the machine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def pass_time_until(condition: Callable[[], bool]) -> None:
    """Advance the running loop's clock by a second per turn until the condition holds. The clock stays ahead afterwards."""
    loop = asyncio.get_running_loop()
    real, ahead = loop.time, 0.0
    loop.time = lambda: real() + ahead
    while not condition():
        ahead += 1
        await asyncio.sleep(0)
