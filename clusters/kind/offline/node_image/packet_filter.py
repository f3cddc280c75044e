"""The programs by which kube-proxy programs the kernel's packet filter, with every library and extension that they load."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from clusters.processes.commands import run


def copy_programs(root: Path, patterns: Sequence[str], target: Path, environment: Mapping[str, str]) -> None:
    """Copy what matches out of a Debian at ``root``, links as links, and what the dynamic linker would load for it.

    The extensions of iptables (``xtables/*.so``) count as programs: each is loaded when a rule names it, and an absent library of
    one shows first when such a rule is written. Raises ClusterError.
    """
    # Links first: with usr merged into the root, paths below /lib lead through them.
    wanted = [root / name for name in ("bin", "sbin", "lib", "lib64") if (root / name).is_symlink()]
    wanted += [path for pattern in patterns for path in sorted(root.glob(pattern))]
    files = sorted({real_path(root, path) for path in wanted if real_path(root, path).is_file()})
    listed = run(
        ["chroot", root, "ldd", *(f"/{file.relative_to(root)}" for file in files if _is_elf(file))], environment
    )
    libraries = [root / name.lstrip("/") for name in libraries_of(listed)]
    for path in [*wanted, *files, *libraries, *(real_path(root, library) for library in libraries)]:
        _copy(path, root, target)


def libraries_of(listed: str) -> list[str]:
    """The absolute paths that ``ldd`` printed, each once: ``libc.so.6 => /lib/…/libc.so.6 (0x…)`` or the loader alone."""
    return sorted(set(re.findall(r"^\s+(?:\S+ => )?(/\S+) \(0x", listed, re.MULTILINE)))


def real_path(root: Path, path: Path) -> Path:
    """Where a path ends when ``root`` is /, whatever links it goes through."""
    for _ in range(40):
        step = _first_link(root, path)
        if step is None:
            return path
        link, rest = step
        to = link.readlink()
        start = root / str(to).lstrip("/") if to.is_absolute() else link.parent / to
        path = Path(str(start / rest)) if rest else start
    return path


def _first_link(root: Path, path: Path) -> tuple[Path, str] | None:
    current = root
    parts = _plain(path.relative_to(root).parts)
    for index, part in enumerate(parts):
        current /= part
        if current.is_symlink():
            return current, "/".join(parts[index + 1 :])
    return None


def _plain(parts: Iterable[str]) -> list[str]:
    plain: list[str] = []
    for part in parts:
        if part != "..":
            plain.append(part)
        elif plain:
            plain.pop()
    return plain


def _copy(path: Path, root: Path, target: Path) -> None:
    """To the same place below the target; folders on the way that are links there are links here."""
    place = target / path.relative_to(root)
    if place.exists() or place.is_symlink():
        return
    # The end of such a link may not be there yet.
    real_path(target, place.parent).mkdir(parents=True, exist_ok=True)
    shutil.copy2(path, place, follow_symlinks=False)


def _is_elf(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"
