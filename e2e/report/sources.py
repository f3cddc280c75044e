"""Which state of the sources a run was of."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path
from typing import Final

UNKNOWN: Final = "unknown"
NOTE: Final = ".commit"
_SECONDS: Final = 30


def state(root: Path) -> str:
    """The commit, twelve digits; with local changes ``<commit>+<digest of the changes>``. ``unknown`` if git gives none.

    Sources without git have it in the file ``NOTE``.
    """
    if (root / NOTE).is_file():
        return (root / NOTE).read_text(encoding="utf-8").strip()
    try:
        commit = _git(root, "rev-parse", "--short=12", "HEAD").decode().strip()
        names = _git(root, "status", "--porcelain")
        changes = names and names + _git(root, "diff", "HEAD") + _untracked(root)
    except (OSError, subprocess.SubprocessError):
        return UNKNOWN
    return f"{commit}+{hashlib.sha256(changes).hexdigest()[:8]}" if changes else commit


def commit_number() -> int:
    """The commit of this checkout: the seed of what is random in a run, so that each sees something new; 1 if there is none."""
    try:
        return int(_git(Path(__file__).parent, "rev-parse", "--short=7", "HEAD"), 16)
    except (OSError, subprocess.SubprocessError):
        return 1


def _untracked(root: Path) -> bytes:
    """The content of files that git neither tracks nor ignores."""
    names = _git(root, "ls-files", "--others", "--exclude-standard", "-z").decode(errors="surrogateescape")
    paths = (root / name for name in names.split("\0") if name)
    return b"".join(path.read_bytes() for path in paths if path.is_file())


def _git(root: Path, *arguments: str) -> bytes:
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, capture_output=True, check=True, timeout=_SECONDS).stdout
