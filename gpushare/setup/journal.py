"""The record of an apply, written before the first change, so that it is undone after a crash at any moment.

``journal.json`` is there from before the first change until a rollback is complete. It names each file and the digests of what
was there and of what comes; the bytes that were there are beside it, by digest. An apply that has not ended is rolled back, and
not resumed.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from gpushare.foreign import decode_json
from gpushare.setup.core.faults import Fault, SetupRefusedError
from gpushare.setup.core.plan import Change
from gpushare.setup.node_files import Content, NodeFiles

FOLDER: Final = "/var/lib/gpushare-setup"
_JOURNAL: Final = f"{FOLDER}/journal.json"
_LOCK: Final = f"{FOLDER}/lock"
_PRIVATE: Final = 0o600


class Journal:
    """The record of one node."""

    INTERRUPTED: Final = Fault("an apply began and has not ended", "run gpushare-setup rollback")

    def __init__(self, files: NodeFiles) -> None:
        self._files = files

    @contextmanager
    def held(self) -> Iterator[None]:
        """One gpushare-setup at a time changes a node. Raises SetupRefusedError."""
        with self._files.folder(_LOCK, make=True) as folder:
            lock = os.open(f"{folder}/lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, _PRIVATE)
        with os.fdopen(lock, "w"):
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise SetupRefusedError(
                    "another gpushare-setup changes this node", "wait until it has ended"
                ) from error
            yield

    def is_interrupted(self) -> bool:
        """Did an apply begin that has not ended?"""
        written = self._read()
        return written is not None and not written["complete"]

    def apply(self, changes: Sequence[Change], afterwards: str = "", *, gives_up: bool = False) -> None:
        """Make these changes, in this order; ``afterwards`` is kept for a rollback.

        ``gives_up``: a change that has not ended is given up, as an uninstall needs nothing of it.
        Raises SetupRefusedError if a file is not what the plan saw or cannot be replaced, and OSError.
        """
        if self.is_interrupted() and not gives_up:
            raise SetupRefusedError(self.INTERRUPTED.what, self.INTERRUPTED.fix)
        for change in changes:
            self._files.refuse_mount(change.path)
        rows = [self._row(change) for change in changes]
        if not rows:
            return
        self._write({"complete": False, "files": rows, "afterwards": afterwards})
        for change, row in zip(changes, rows, strict=True):
            self._files.replace(change.path, _content(_bytes(change.new), row))

    def _row(self, change: Change) -> dict[str, Any]:
        """Keep what is there, and describe it."""
        with self._files.folder(change.path):
            old = self._files.read(change.path)
        if _data(old) != _bytes(change.old):
            raise SetupRefusedError(f"{change.path} has changed since it was read", "run gpushare-setup again")
        row = {"path": change.path, "before": None, "after": _digest(_bytes(change.new))}
        if old is None:
            return row
        before = _digest(old.data)
        self._files.replace(f"{FOLDER}/{before}", Content(old.data, _PRIVATE))
        return {**row, "before": before, "mode": old.mode, "owner": old.owner}

    def complete(self) -> None:
        """The changes stay."""
        written = self._read()
        if written is not None:
            self._write({**written, "complete": True})

    def rollback(self) -> tuple[list[tuple[str, bool]], str]:
        """Put every file back that the last apply changed: its path, and was it there before; and what is left to a person.

        Raises SetupRefusedError and OSError.
        """
        written = self._read()
        if written is None:
            raise SetupRefusedError(
                "there is no apply to roll back",
                "gpushare-setup check shows what is there, and gpushare-setup uninstall removes it",
            )
        rows = written["files"]
        self.sweep(row["path"] for row in rows if row["before"] is None)
        there = {row["path"]: _digest(_data(self._files.read(row["path"]))) for row in rows}
        for row in rows:
            if there[row["path"]] not in (row["before"], row["after"]):
                by_hand = f"put {FOLDER}/{row['before']} there" if row["before"] else "remove that file"
                raise SetupRefusedError(
                    f"{row['path']} has changed since the apply", f"{by_hand} by hand, or run gpushare-setup uninstall"
                )
        for row, content in reversed([(row, self._kept(row)) for row in rows]):
            self._files.clear(row["path"])
            if there[row["path"]] != row["before"]:
                self._files.replace(row["path"], content)
        self._files.replace(_JOURNAL, None)
        self._files.clear(_JOURNAL)
        for row in rows:
            if row["before"] is not None:
                self._files.replace(f"{FOLDER}/{row['before']}", None)
        return [(row["path"], row["before"] is not None) for row in rows], written["afterwards"]

    def sweep(self, gone: Iterable[str]) -> None:
        """Remove the empty folders that are in place of these files, which were removed.

        Until the kubelet has seen the new manifest it starts the container of the old one again, and containerd makes a folder
        in place of a missing file that it mounts.
        """
        for path in gone:
            self._files.remove_empty_folder(path)

    def _kept(self, row: dict[str, Any]) -> Content | None:
        if row["before"] is None:
            return None
        kept = self._files.read(f"{FOLDER}/{row['before']}")
        if kept is None or _digest(kept.data) != row["before"]:
            raise SetupRefusedError(f"the copy of {row['path']} in {FOLDER} is lost", "run gpushare-setup uninstall")
        return _content(kept.data, row)

    def _read(self) -> Any:
        found = self._files.read(_JOURNAL)
        return None if found is None else decode_json(found.data)

    def _write(self, written: dict[str, Any]) -> None:
        self._files.replace(_JOURNAL, Content(json.dumps(written, indent=1).encode(), _PRIVATE))


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _data(content: Content | None) -> bytes | None:
    return None if content is None else content.data


def _digest(data: bytes | None) -> str | None:
    return None if data is None else hashlib.sha256(data).hexdigest()


def _content(data: bytes | None, row: dict[str, Any]) -> Content | None:
    """With the mode and owner of the file that was there."""
    if data is None:
        return None
    return Content(data, row["mode"], tuple(row["owner"])) if "mode" in row else Content(data)
