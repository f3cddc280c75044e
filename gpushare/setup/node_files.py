"""The files of a node below a root folder, read whole and replaced whole.

A write follows no link, and goes only into folders that root alone may write: another user could else choose what is overwritten.
"""

from __future__ import annotations

import os
import posixpath
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpushare.setup.core import sites
from gpushare.setup.core.faults import SetupRefusedError

_NEW_MODE: Final = 0o644
"""kube-scheduler need not be root, and no file here is secret."""

MOUNTS: Final = Path("/proc/self/mountinfo")


@dataclass(frozen=True, slots=True)
class Content:
    """A file: its bytes, mode and owner."""

    data: bytes
    mode: int = _NEW_MODE
    owner: tuple[int, int] | None = None
    """Numbers of user and group; None for our own."""


class NodeFiles:
    """Paths are those of the node, and begin with a slash."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def at(self, path: str) -> Path:
        """The path here."""
        return self.root / path.lstrip("/")

    def texts(self, also: Iterable[str] = (), there: Iterable[str] = ()) -> dict[str, str]:
        """The files that show what the node is, and others; of credentials, and of ``there``, only whether they are there."""
        paths = [*sites.READ]
        for one in (*sites.READ_BY_PATTERN, *also):
            paths += self._matching(one) if "*" in one else [one]
        texts = {path: text for path in paths if path and (text := self.text(path)) is not None}
        return texts | {path: "" for path in (*sites.CREDENTIALS, *there) if self.at(path).exists()}

    def _matching(self, pattern: str) -> list[str]:
        return [
            f"/{found.relative_to(self.root)}" for found in self.root.glob(pattern.lstrip("/")) if not found.is_dir()
        ]

    def text(self, path: str) -> str | None:
        """None if it is not there. Raises SetupRefusedError, also if it is not in UTF-8."""
        content = self.read(path)
        try:
            return None if content is None else content.data.decode()
        except UnicodeDecodeError as error:
            raise SetupRefusedError(f"{path}: no text in UTF-8", "fix the file, or restore it from a copy") from error

    def read(self, path: str) -> Content | None:
        """None if it is not there. Raises SetupRefusedError, also for a link: replaced, it would be none."""
        here = self.at(path)
        try:
            if here.is_symlink():
                raise SetupRefusedError(f"{path} is a link to {here.readlink()}", "put the file itself there")
            with os.fdopen(os.open(here, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
                status = os.fstat(file.fileno())
                return Content(file.read(), status.st_mode & 0o7777, (status.st_uid, status.st_gid))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except IsADirectoryError as error:
            raise SetupRefusedError(
                f"{path} is a folder, as kind and Docker make of a mount without its file",
                "write the file that extraMounts names on the host, and create the cluster again; else remove the folder",
            ) from error
        except OSError as error:
            raise SetupRefusedError(f"{path} cannot be read: {error.strerror}", "run gpushare-setup as root") from error

    def replace(self, path: str, content: Content | None) -> None:
        """Make it the whole file, or no file, on the disk; after a crash it is the old or the new one.

        Raises SetupRefusedError as ``folder``, and OSError.
        """
        with self.folder(path, make=content is not None) as folder, self._unfinished(path) as unfinished:
            if folder is None or unfinished is None:
                return
            here = folder / posixpath.basename(path)
            if content is None:
                here.unlink(missing_ok=True)
            else:
                if os.path.lexists(unfinished):
                    unfinished.unlink()
                # O_EXCL: what was planted there since is an error, and is not written to.
                with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                    file.write(content.data)
                    if os.path.lexists(here):
                        # The labels of SELinux, too.
                        shutil.copystat(here, unfinished)
                    os.fchmod(file.fileno(), content.mode)
                    if content.owner is not None and content.owner != (os.getuid(), os.getgid()):
                        os.fchown(file.fileno(), *content.owner)
                    file.flush()
                    os.fsync(file.fileno())
                os.utime(unfinished)
                unfinished.replace(here)
            _sync(folder)

    def remove_empty_folder(self, path: str) -> None:
        """Remove the folder that is there in place of a file, unless it holds anything. Raises as ``folder``."""
        with self.folder(path) as folder, suppress(OSError):
            if folder is not None:
                (folder / posixpath.basename(path)).rmdir()

    def clear(self, path: str) -> None:
        """Take away what a crash left of a replacement. Raises as ``replace``."""
        with self._unfinished(path) as unfinished:
            if unfinished is not None:
                unfinished.unlink(missing_ok=True)

    def refuse_mount(self, path: str) -> None:
        """Raises SetupRefusedError if no rename can replace the file, because it is a mount, or the folder of static pods is."""
        mounts = {line.split()[4] for line in MOUNTS.read_text().splitlines()}
        if os.path.realpath(self.at(path)) in mounts:
            raise SetupRefusedError(
                f"{path} is a mount of its own, so no other file can take its place; nothing was changed",
                f"findmnt {path} shows the file behind it: change that one, as gpushare-setup plan shows",
            )
        if posixpath.dirname(path) == sites.MANIFESTS and os.path.realpath(self.at(sites.MANIFESTS)) in mounts:
            raise SetupRefusedError(
                f"{sites.MANIFESTS} is a mount of its own, so no file from outside can be renamed into it; nothing was changed",
                f"mount {posixpath.dirname(sites.MANIFESTS)} as a whole, as clusters/deploy/samples/setup/job.yaml does",
            )

    @contextmanager
    def folder(self, path: str, *, make: bool = False) -> Iterator[Path | None]:
        """The folder of a file, held open so that it cannot be exchanged; None if it is not there, unless this makes it.

        Raises SetupRefusedError if a folder on the way from the root is a link, or if others than root and us may write in it.
        """
        names = posixpath.normpath("/" + path.lstrip("/")).split("/")[1:-1]
        held = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for depth, name in enumerate(names, 1):
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(name, 0o755, dir_fd=held)
                try:
                    _refuse_planted("/" + "/".join(names[:depth]), os.stat(name, dir_fd=held, follow_symlinks=False))
                except FileNotFoundError:
                    yield None
                    return
                below = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=held)
                os.close(held)
                held = below
            yield Path(f"/proc/self/fd/{held}")
        finally:
            os.close(held)

    @contextmanager
    def _unfinished(self, path: str) -> Iterator[Path | None]:
        """Where a replacement is made. Never in the folder of static pods: the kubelet would run what is there."""
        parent, name = posixpath.split(path)
        beside = parent if parent == sites.MANIFESTS else path
        with self.folder(beside) as folder:
            yield None if folder is None else folder / f".{name}.gpushare-setup"


def _refuse_planted(path: str, status: os.stat_result) -> None:
    """Raises SetupRefusedError if another user than root and us can choose what is in this folder."""
    if stat.S_ISLNK(status.st_mode):
        raise SetupRefusedError(f"{path} is a link", "put the folder itself there, or mount it there (mount --bind)")
    if status.st_mode & stat.S_IWOTH or (status.st_mode & stat.S_IWGRP and status.st_gid not in (0, os.getegid())):
        raise SetupRefusedError(f"others than root may write in {path}", f"look what is in it, then chmod go-w {path}")
    if status.st_uid not in (0, os.geteuid()):
        raise SetupRefusedError(
            f"{path} belongs to user {status.st_uid}", f"look what is in it, then chown root {path}"
        )


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
