"""Files that flags name: read whole, and never more of them than a bound."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from gpushare.bounds import Bound
from gpushare.errors import UsageError


def read_file(path: Path, bound: Bound) -> bytes:
    """The bytes of a regular file; a device or a pipe is refused, as it may never end.

    Raises UsageError, which begins with the path.
    """
    try:
        # Without O_NONBLOCK, opening a pipe would wait for a writer.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise UsageError(f"{path}: not a regular file")
            found = file.read(bound.most + 1)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    if bound.exceeded(len(found)):
        raise UsageError(f"{path}: {bound.refusal}")
    return found
