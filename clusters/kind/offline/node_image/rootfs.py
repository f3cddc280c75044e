"""Debian's part of a node: packages from the mirror that this machine uses itself, kept in the cache as layers.

The key is the release, the list of packages and this recipe: a change of a unit or of a program makes no new one.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final, TextIO

import yaml

from clusters.kind.offline import debian, oci_archive
from clusters.kind.offline.node_image.packet_filter import copy_programs
from clusters.kind.offline.oci_archive import Layer, architecture, write_layer
from clusters.processes.build_cache import BUILDING
from clusters.processes.progress import Progress

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
