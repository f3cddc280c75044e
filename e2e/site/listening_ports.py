"""Which TCP ports of a machine are taken, and by which programs, from its /proc."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

_LISTENS: Final = "0A"


def listening(proc: Path) -> Mapping[int, str]:
    """The command line of the program that listens, by port; "" if it cannot be seen. Raises OSError."""
    inodes = dict(_inodes(proc))
    owners = _owners(proc, set(inodes.values())) if inodes else {}
    return {port: owners.get(inode, "") for port, inode in inodes.items()}


def command_lines(proc: Path) -> Iterator[tuple[Path, str]]:
    """The folder and the command line of each process."""
    for folder in proc.glob("[0-9]*"):
        with contextlib.suppress(OSError):
            yield folder, (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()


def _inodes(proc: Path) -> Iterator[tuple[int, str]]:
    """Port and inode of each socket that listens."""
    tables = [table for name in ("tcp", "tcp6") if (table := proc / "net" / name).exists()]
    if not tables:
        raise FileNotFoundError(f"{proc}/net/tcp is not there")
    for table in tables:
        for line in table.read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == _LISTENS:
                yield int(fields[1].rpartition(":")[2], 16), fields[9]


def _owners(proc: Path, inodes: set[str]) -> dict[str, str]:
    """The command line of the process that has each of these sockets open, as far as this user may see."""
    found: dict[str, str] = {}
    for folder, command in command_lines(proc):
        with contextlib.suppress(OSError):
            for descriptor in (folder / "fd").iterdir():
                with contextlib.suppress(OSError):
                    inode = os.readlink(descriptor).removeprefix("socket:[").removesuffix("]")  # noqa: PTH115  # no path
                    if inode in inodes:
                        found[inode] = command
    return found
