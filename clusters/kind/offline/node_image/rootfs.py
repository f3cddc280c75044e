"""Debian's part of a node: packages from the mirror that this machine uses itself, kept in the cache as a layer.

The key is the release, the list of packages and this recipe: a change of a unit or of a program makes no new one.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TextIO

import yaml

from clusters.kind.offline.node_image.apt_sources import Source, mirror
from clusters.kind.offline.node_image.commands import run, tied
from clusters.kind.offline.node_image.oci_archive import Layer, architecture, write_layer
from clusters.kind.offline.node_image.packet_filter import copy_programs
from clusters.processes.build_cache import BUILDING
from clusters.processes.progress import Progress
from clusters.provider import ClusterError

PACKAGES: Final = Path(__file__).parent / "packages.yaml"
# The command that shows its progress.
COMMAND: Final = "kind-image"
# Layers of the cache: all of a node's Debian, and what kube-proxy runs of it.
_NAMES: Final = ("node", "packet-filter")


def ensure(cache: Path, environment: Mapping[str, str], out: TextIO) -> dict[str, Layer]:
    """The layers ``node`` and ``packet-filter``, made if they are not in the cache. Raises ClusterError."""
    suite = host_suite(Path("/etc/os-release"))
    folder = cache / f"debian-{key(suite)}"
    if not folder.is_dir():
        _make(folder, suite, environment, out)
    return {name: _read(folder, name) for name in _NAMES}


def key(suite: str) -> str:
    """The key of the layers' sources, in 12 hexadecimal digits."""
    # This file is the recipe; a change of it may change the result.
    parts = [suite.encode(), architecture().encode(), PACKAGES.read_bytes(), Path(__file__).read_bytes()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:12]


def host_suite(os_release: Path) -> str:
    """The release of Debian (or of a relative) that this machine is. Raises ClusterError."""
    text = os_release.read_text() if os_release.exists() else ""
    for line in text.splitlines():
        name, _, value = line.partition("=")
        if name == "VERSION_CODENAME":
            return value.strip('"')
    raise ClusterError(f"{os_release} names no release of Debian: a node image is built on Debian, {_INSTEAD}")


_INSTEAD: Final = "or use a published one (--node-image)"


def host_mirror(suite: str, apt: Path = Path("/etc/apt")) -> Source:
    """Where this machine's packages of that release come from. Raises ClusterError."""
    files = [apt / "sources.list", *sorted((apt / "sources.list.d").glob("*"))]
    found = mirror(((file.name, file.read_text()) for file in files if file.is_file()), suite)
    if found is None:
        raise ClusterError(f"{apt}: no source has main of {suite}: name one there, {_INSTEAD}")
    return found


def _make(folder: Path, suite: str, environment: Mapping[str, str], out: TextIO) -> None:
    if os.geteuid() != 0:
        raise ClusterError(f"making a node's Debian needs root (chroot): run as root, {_INSTEAD}")
    source = host_mirror(suite)
    wanted: dict[str, list[str]] = yaml.safe_load(PACKAGES.read_text())
    with (
        tempfile.TemporaryDirectory(prefix=BUILDING, dir=folder.parent) as building,
        Progress(
            COMMAND, f"making Debian {suite} of {len(wanted['node'])} packages", out, "once; a minute"
        ) as progress,
    ):
        _install_debootstrap(environment, progress)
        root, made = Path(building) / "root", Path(building) / "made"
        made.mkdir()
        _debootstrap(root, source, wanted["node"], environment, progress)
        progress.detail = "packing"
        filters = Path(building) / "packet-filter"
        copy_programs(root, wanted["packet-filter"], filters, environment)
        for name in wanted["remove"]:
            _empty(root / name)
        for name, content in zip(_NAMES, (root, filters), strict=True):
            # Docker makes its own devices; those of debootstrap are a few that chroot needs.
            layer = write_layer(content, made / f"{name}.tar", leave_out=("dev", "proc", "sys", "run", "tmp"))
            (made / f"{name}.json").write_text(json.dumps({"digest": layer.digest, "size": layer.size}))
        made.rename(folder)
        progress.line(f"made Debian {suite}")


def _read(folder: Path, name: str) -> Layer:
    facts: dict[str, Any] = json.loads((folder / f"{name}.json").read_text())
    return Layer(folder / f"{name}.tar", facts["digest"], facts["digest"], facts["size"])


def _install_debootstrap(environment: Mapping[str, str], progress: Progress) -> None:
    if shutil.which("debootstrap", path=environment.get("PATH")) is None:
        progress.detail = "installing debootstrap by apt"
        quiet = {**environment, "DEBIAN_FRONTEND": "noninteractive"}
        run(["apt-get", "install", "--yes", "--no-install-recommends", "debootstrap"], quiet)


def _debootstrap(
    root: Path, source: Source, packages: Sequence[str], environment: Mapping[str, str], progress: Progress
) -> None:
    argv = ["debootstrap", "--variant=minbase", f"--include={','.join(packages)}"]
    argv += [f"--keyring={source.signed_by}"] if source.signed_by else []
    # Mounts of its own, and processes of its own: both are gone with it, however it ends.
    own = ["unshare", "--mount", "--propagation=private", "--fork", "--pid", "--kill-child", *argv]
    command, settings = tied([*own, source.suite, root, source.url], environment)
    lines: list[str] = []
    with subprocess.Popen(
        command, env=settings, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        try:
            for line in process.stdout or ():
                lines.append(line.rstrip())
                progress.detail = line.removeprefix("I: ").strip().rstrip(".")
        except BaseException:
            # unshare ignores what asks it to end; killed, it takes along all that it started.
            process.kill()
            raise
    if process.returncode != 0:
        tail = "\n".join(lines[-10:])
        raise ClusterError(f"debootstrap of {source.suite} from {source.url} ended with {process.returncode}:\n{tail}")


def _empty(folder: Path) -> None:
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
