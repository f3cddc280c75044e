"""Waits until something comes or goes in a folder, by inotify; if the kernel has none, by looking more often.

A kubelet that starts removes the sockets of its plugins and makes a new one of its own. Until a plugin has registered again
the node shows none of its cards, and pods that are admitted in between fail for good. So the change must be noticed
immediately, and a folder without changes must cost nothing.
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

# How often the folder is looked at in any case, in seconds: if inotify missed a change, and if there is no inotify.
_TOLD_SECONDS: Final = 10.0
UNTOLD_SECONDS: Final = 0.5


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
                "no inotify, looking every seconds=%.1f folder=%s reason=%s", UNTOLD_SECONDS, self._folder, error
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._inotify is not None:
            self._inotify.close()

    async def changed(self, seconds: float = _TOLD_SECONDS) -> None:
        """Until something came or went in the folder, or at most this many seconds. It may also be nothing."""
        if self._inotify is None:
            await asyncio.sleep(min(seconds, UNTOLD_SECONDS))
            return
        here = _identity(self._folder)
        if here is None or here != self._watched:
            # The folder is another one, or is seen for the first time: changes before the watch began are not reported.
            self._watched = here if self._is_watched(self._inotify) else None
            await asyncio.sleep(0 if self._watched else min(seconds, UNTOLD_SECONDS))
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
