"""Waits until something comes or goes in a folder, by inotify; where the kernel gives none, by looking more often.

A kubelet that starts removes the sockets of its plugins and makes its own anew. Until a plugin has registered again the
node shows none of its cards, and pods that are admitted meanwhile fail for good: so it is told at once, and costs nothing
while nothing happens.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from pathlib import Path
from types import TracebackType
from typing import Final

from asyncinotify import Inotify, Mask

_LOG = logging.getLogger(__name__)

# Device and inode. A folder's times tell nothing: they change with what lies in it.
_Identity = tuple[int, int]

# How often one looks in any case, in seconds: for a change that inotify did not tell, and where there is no inotify.
_TOLD_SECONDS: Final = 10.0
_UNTOLD_SECONDS: Final = 0.5


class FolderWatch:
    """One folder, which may not be there yet. A context: the watch ends with it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._inotify: Inotify | None = None
        self._watched: _Identity | None = None

    def __enter__(self) -> FolderWatch:
        try:
            self._inotify = Inotify()
        except OSError as error:
            # Kernels allow few for one user (fs.inotify.max_user_instances), and a node has many programs of root's.
            _LOG.warning(
                "no inotify, looking every seconds=%.1f folder=%s reason=%s", _UNTOLD_SECONDS, self._folder, error
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._inotify is not None:
            self._inotify.close()

    async def changed(self, seconds: float = _TOLD_SECONDS) -> None:
        """Until something came or went in the folder, or so many seconds at the most. It may also be nothing."""
        if self._inotify is None:
            await asyncio.sleep(min(seconds, _UNTOLD_SECONDS))
            return
        here = _identity(self._folder)
        if here is None or here != self._watched:
            # It was made anew, or is seen for the first time: what happened before the watch began is not told.
            self._watched = here if self._is_watched(self._inotify) else None
            await asyncio.sleep(0 if self._watched else min(seconds, _UNTOLD_SECONDS))
            return
        # Not wait_for: before Python 3.12 it loses a cancellation that comes together with an event.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._inotify.get()

    def _is_watched(self, inotify: Inotify) -> bool:
        try:
            inotify.add_watch(self._folder, Mask.CREATE | Mask.DELETE | Mask.MOVE)
        except FileNotFoundError:
            return False
        except OSError as error:
            _LOG.warning("folder not watched folder=%s reason=%s", self._folder, error)
            return False
        return True


def _identity(path: Path) -> _Identity | None:
    try:
        stat = path.stat()
    except FileNotFoundError:
        return None
    return stat.st_dev, stat.st_ino
