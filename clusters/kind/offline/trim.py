"""The parts of a small Debian that a Python program needs: pure readings of dpkg's own records, and the removal of the rest.

The packages that stay keep their entry in dpkg's status and their licence, so that a scanner knows what is in the image.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

# These packages stay, with all that they depend on: Python, its zones of time, the libraries that wheels expect, a shell for
# `kubectl exec`, and the users and folders of Debian.
WANTED: Final = ("python3", "tzdata", "libstdc++6", "zlib1g", "dash", "base-files", "base-passwd")
# Depended upon only to install and configure packages.
_LEFT_OUT: Final = ("dpkg", "debconf", "debconf-2.0", "awk", "mawk", "mailcap")
_EMPTIED: Final = (
    "usr/share/man",
    "usr/share/locale",
    "usr/share/info",
    "usr/share/lintian",
    "var/lib/apt",
    "var/cache",
    "var/log",
)


def paragraphs(status: str) -> dict[str, str]:
    """Each installed package's paragraph of dpkg's status file, by name."""
    found = ((re.search(r"^Package: (\S+)$", text, re.MULTILINE), text) for text in status.strip().split("\n\n"))
    return {match[1]: text for match, text in found if match is not None}


def closure(
    status: Mapping[str, str], wanted: Iterable[str] = WANTED, left_out: Iterable[str] = _LEFT_OUT
) -> frozenset[str]:
    """These packages and all that they depend on. Raises KeyError for a wanted one that is not installed."""
    pending, kept, out = list(wanted), set[str](), frozenset(left_out)
    for name in pending:
        if name not in status:
            raise KeyError(name)
    while pending:
        name = pending.pop()
        if name in kept:
            continue
        kept.add(name)
        # Alternatives count if they are installed; a virtual package is provided by one that is asked for by name elsewhere.
        pending += [one for one in _depends(status[name]) if one in status and one not in out]
    return frozenset(kept)


def _depends(paragraph: str) -> Iterator[str]:
    for field in re.findall(r"^(?:Pre-)?Depends: (.*)$", paragraph, re.MULTILINE):
        yield from re.findall(r"(?:^|[,|])\s*([a-z0-9][a-z0-9+.-]+)", field)


def trim(root: Path) -> None:
    """Remove from a Debian below ``root`` the files of all packages that Python does not need, and unused data."""
    status_file = root / "var/lib/dpkg/status"
    status = paragraphs(status_file.read_text())
    kept = closure(status)
    stays = {path for name in kept for path in _files(root, name)}
    goes = {path for name in status.keys() - kept for path in _files(root, name)} - stays
    # The deepest first: a folder goes when it is empty by then.
    for path in sorted(goes, key=lambda path: len(path.parts), reverse=True):
        _remove(path)
    for name in _EMPTIED:
        shutil.rmtree(root / name, ignore_errors=True)
    # Character sets that no Python program asks the C library for.
    for folder in (root / "usr/lib").glob("*/gconv"):
        shutil.rmtree(folder)
    for path in (root / "usr/share/doc").rglob("*"):
        if path.is_file() and path.name != "copyright":
            path.unlink()
    shutil.rmtree(root / "var/lib/dpkg")
    status_file.parent.mkdir()
    status_file.write_text("\n\n".join(status[name] for name in sorted(kept)) + "\n")
    (root / "var/cache").mkdir(exist_ok=True)
    (root / "var/log").mkdir(exist_ok=True)


def _files(root: Path, package: str) -> Iterator[Path]:
    """A package's files and folders. /lib is a link to /usr/lib, and some packages name a file the one way, some the other."""
    folder = root / "var/lib/dpkg/info"
    for record in (folder / f"{package}.list", *folder.glob(f"{package}:*.list")):
        if record.exists():
            for line in record.read_text().splitlines():
                path = root / line.lstrip("/")
                if path != root / ".":
                    yield path.parent.resolve() / path.name


def _remove(path: Path) -> None:
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.is_dir() and not any(path.iterdir()):
        path.rmdir()
