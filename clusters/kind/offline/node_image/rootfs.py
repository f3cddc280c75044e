"""Debian's part of a node: packages from the mirror that this machine uses itself, kept in the cache as layers.

One layer is all of a node's. The other has the programs by which kube-proxy programs the kernel's packet filter, with every library
and extension that they load.

The key is the release, the list of packages and this recipe: a change of a unit or of a program makes no new one.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, TextIO

import yaml

from clusters.kind.offline import debian, oci_archive
from clusters.kind.offline.oci_archive import Layer, architecture, write_layer
from clusters.processes.commands import BUILDING, Progress, run

PACKAGES: Final = Path(__file__).parent / "packages.yaml"
# The command that shows its progress.
COMMAND: Final = "kind-image"
# Layers of the cache: all of a node's Debian, and what kube-proxy runs of it.
_NAMES: Final = ("node", "packet-filter")


def ensure(cache: Path, environment: Mapping[str, str], out: TextIO) -> dict[str, Layer]:
    """The layers ``node`` and ``packet-filter``, made if they are not in the cache. Raises ClusterError."""
    folder = cache / f"debian-{key(debian.host_suite())}"
    if not folder.is_dir():
        _make(folder, environment, out)
    digests = (folder / "digests").read_text().split()
    return {name: Layer(folder / f"{name}.tar", digest) for name, digest in zip(_NAMES, digests, strict=True)}


def key(suite: str) -> str:
    """The key of the layers' sources, in 12 hexadecimal digits."""
    # These files are the recipe; a change of one may change the result.
    recipe = [Path(name).read_bytes() for name in (PACKAGES, __file__, debian.__file__, oci_archive.__file__)]
    parts = [suite.encode(), architecture().encode(), *recipe]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:12]


def _make(folder: Path, environment: Mapping[str, str], out: TextIO) -> None:
    wanted: dict[str, list[str]] = yaml.safe_load(PACKAGES.read_text())
    text = f"making a Debian of {len(wanted['node'])} packages"
    with (
        tempfile.TemporaryDirectory(prefix=BUILDING, dir=folder.parent) as building,
        Progress(COMMAND, text, out, "once; a minute") as progress,
    ):
        root, filters, made = (Path(building) / name for name in ("root", "packet-filter", "made"))
        made.mkdir()
        debian.debootstrap(root, wanted["node"], environment, progress)
        progress.detail = "packing"
        copy_programs(root, wanted["packet-filter"], filters, environment)
        for name in wanted["remove"]:
            shutil.rmtree(root / name, ignore_errors=True)
            (root / name).mkdir(parents=True)
        layers = [
            write_layer(content, made / f"{name}.tar", leave_out=debian.LEFT_OUT)
            for name, content in zip(_NAMES, (root, filters), strict=True)
        ]
        (made / "digests").write_text("\n".join(layer.digest for layer in layers))
        made.rename(folder)
        progress.line("made it")


def copy_programs(root: Path, patterns: Sequence[str], target: Path, environment: Mapping[str, str]) -> None:
    """Copy what matches out of a Debian at ``root``, links as links, and what the dynamic linker would load for it.

    The extensions of iptables (``xtables/*.so``) count as programs: each is loaded when a rule names it, and an absent library of
    one shows first when such a rule is written. Raises ClusterError.
    """

    def inside(program: str, paths: Sequence[Path]) -> str:
        return run(["chroot", root, program, *(f"/{path.relative_to(root)}" for path in paths)], environment)

    def ends(paths: Sequence[Path]) -> list[Path]:
        return [root / line.lstrip("/") for line in inside("realpath", paths).splitlines()]

    found = [path for pattern in patterns for path in sorted(root.glob(pattern))]
    files = [path for path in sorted({*ends(found)}) if path.is_file()]
    found += [
        root / name.lstrip("/") for name in libraries_of(inside("ldd", [path for path in files if _is_elf(path)]))
    ]
    # With usr merged into the root, paths below /lib lead through a link: each lies where its folder really is.
    links = [root / name for name in ("bin", "sbin", "lib", "lib64") if (root / name).is_symlink()]
    folders = ends([path.parent for path in found])
    placed = [folder / path.name for folder, path in zip(folders, found, strict=True)]
    for path in {*links, *files, *placed, *ends(found)}:
        if path.is_symlink() or path.is_file():
            place = target / path.relative_to(root)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, place, follow_symlinks=False)


def libraries_of(listed: str) -> list[str]:
    """The absolute paths that ``ldd`` printed, each once: ``libc.so.6 => /lib/…/libc.so.6 (0x…)`` or the loader alone."""
    return sorted(set(re.findall(r"^\s+(?:\S+ => )?(/\S+) \(0x", listed, re.MULTILINE)))


def _is_elf(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"
