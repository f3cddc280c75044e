"""The files of a node below a root folder, read whole and replaced whole."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpushare.setup.core import sites
from gpushare.setup.core.faults import SetupRefusedError

_NEW_MODE: Final = 0o644
"""kube-scheduler need not be root, and no file here is secret."""


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
        listed = [f"/{found.relative_to(self.root)}" for one in sites.READ_BY_PATTERN for found in self._glob(one)]
        texts = {
            path: text for path in (*sites.READ, *listed, *also) if path and (text := self._text(path)) is not None
        }
        return texts | {path: "" for path in (*sites.CREDENTIALS, *there) if self.at(path).exists()}

    def _glob(self, pattern: str) -> list[Path]:
        """Without hidden files, which neither a kubelet nor k3s reads."""
        return [found for found in self.root.glob(pattern.lstrip("/")) if not found.name.startswith(".")]

    def _text(self, path: str) -> str | None:
        content = self.read(path)
        try:
            return None if content is None else content.data.decode()
        except UnicodeDecodeError as error:
            raise SetupRefusedError(f"{path}: no text in UTF-8", "mend the file, or restore it from a copy") from error

    def read(self, path: str) -> Content | None:
        """None if it is not there. Raises SetupRefusedError, also for a link: replaced, it would be none."""
        here = self.at(path)
        try:
            if here.is_symlink():
                raise SetupRefusedError(f"{path} is a link to {here.readlink()}", "put the file itself there")
            status = here.stat()
            return Content(here.read_bytes(), status.st_mode & 0o7777, (status.st_uid, status.st_gid))
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
        """Make it the whole file, or no file, on the disk; after a crash it is the old or the new one. Raises OSError."""
        here = self.at(path)
        if content is None:
            here.unlink(missing_ok=True)
        else:
            here.parent.mkdir(parents=True, exist_ok=True)
            unfinished = self._unfinished(here)
            with unfinished.open("wb") as file:
                file.write(content.data)
                if here.exists():
                    # The labels of SELinux, too.
                    shutil.copystat(here, unfinished)
                unfinished.chmod(content.mode)
                if content.owner is not None and content.owner != (os.getuid(), os.getgid()):
                    os.chown(unfinished, *content.owner)
                file.flush()
                os.fsync(file.fileno())
            os.utime(unfinished)
            unfinished.replace(here)
        if here.parent.exists():
            _sync(here.parent)

    def clear(self, path: str) -> None:
        """Take away what a crash left of a replacement."""
        self._unfinished(self.at(path)).unlink(missing_ok=True)

    def _unfinished(self, here: Path) -> Path:
        """Never in the folder of static pods: the kubelet would run what is there."""
        folder = here.parent.parent if here.parent == self.at(sites.MANIFESTS) else here.parent
        return folder / f".{here.name}.gpushare-setup"


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
