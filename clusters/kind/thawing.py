"""Lets frozen containers end. On cgroup v1 a process that is frozen takes no signal, not even SIGKILL.

A node's own runtime freezes a container for a moment when it changes what that may use. A machine that loses its power in that
moment, or is removed, leaves it frozen for ever: its first process ends only after all others, and so never.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Final

FREEZER: Final = Path("/sys/fs/cgroup/freezer")
_STATE: Final = "freezer.state"
# How often one looks while containers end, in seconds.
_LOOK_SECONDS: Final = 0.2


@contextlib.asynccontextmanager
async def thawing(containers: Iterable[str], freezer: Path = FREEZER) -> AsyncIterator[None]:
    """While inside, whatever is frozen in these containers (whole ids, as Docker has them) is thawed."""
    keeping = asyncio.create_task(_keep_thawing(tuple(containers), freezer))
    try:
        yield
    finally:
        keeping.cancel()
        await asyncio.wait([keeping])


async def _keep_thawing(containers: tuple[str, ...], freezer: Path) -> None:
    while True:
        for container in containers:
            thaw(container, freezer)
        await asyncio.sleep(_LOOK_SECONDS)


def thaw(container: str, freezer: Path = FREEZER) -> list[Path]:
    """Thaw what is frozen in a container now: its control group (named after it, wherever that is) and all below; these groups.

    Nothing on a machine without cgroup v1, or for a user without the right to write there.
    """
    thawed = []
    for group in freezer.rglob(f"*{container}*"):
        for state in group.rglob(_STATE):
            with contextlib.suppress(OSError):  # it is gone, or not ours to change
                if state.read_text().strip() != "THAWED":
                    state.write_text("THAWED")
                    thawed.append(state.parent)
    return thawed
