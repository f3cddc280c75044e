"""Container images as plain files: layers, and the archive of several images that ``docker load`` and ``ctr images import`` read.

The archive is ``docker save``'s older form: ``manifest.json`` names each image, its settings and its layers. No engine and no
registry is asked.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import platform
import shutil
import stat
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

# The machine's architecture, as Go and the image formats call it.
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
_CHUNK: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer: a file that is a tar, or a compressed tar."""

    path: Path
    digest: str
    """``sha256:…`` of the tar."""


@dataclass(frozen=True, slots=True)
class Image:
    """The parts of an image, and the default process of its containers."""

    names: tuple[str, ...]
    """Whole names with a tag: ``registry.k8s.io/pause:3.10``."""
    layers: tuple[Layer, ...]
    entrypoint: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    stop_signal: str = ""


def architecture() -> str:
    """This machine's, as images name it."""
    return _ARCHITECTURES.get(platform.machine(), platform.machine())


def write_layer(folder: Path, path: Path, *, leave_out: Iterable[str] = (), compressed: bool = False) -> Layer:
    """Write what is in the folder as a layer. The same content gives the same bytes: names sorted, times zero.

    Owners and modes are kept, sockets and what is below the names in ``leave_out`` (relative) are not.
    """
    with tarfile.open(path, mode="w", format=tarfile.PAX_FORMAT) as tar:
        _add_below(tar, folder, frozenset(leave_out))
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if compressed:
        plain = path.rename(path.with_name(f"{path.name}.plain"))
        # Level 1: a node unpacks these once, on a machine with little time.
        with plain.open("rb") as file, gzip.GzipFile(path, "wb", compresslevel=1, mtime=0) as packed:
            shutil.copyfileobj(file, packed, _CHUNK)
        plain.unlink()
    return Layer(path, f"sha256:{digest}")


def _add_below(tar: tarfile.TarFile, folder: Path, leave_out: frozenset[str]) -> None:
    pending = sorted(folder.iterdir(), reverse=True)
    while pending:
        path = pending.pop()
        name = path.relative_to(folder).as_posix()
        if stat.S_ISSOCK(path.lstat().st_mode):
            continue
        # The first of several names of one file is a file, the others are links to it: tarfile keeps count.
        entry = tar.gettarinfo(path, name)
        entry.mtime = 0
        entry.uname = entry.gname = ""
        if entry.isreg():
            with path.open("rb") as file:
                tar.addfile(entry, file)
        else:
            tar.addfile(entry)
        if entry.isdir() and name not in leave_out:
            pending += sorted(path.iterdir(), reverse=True)


def write_archive(images: Sequence[Image], out: IO[bytes]) -> None:
    """Write the images, each layer once. The file need not be seekable."""
    written: set[str] = set()
    manifest: list[dict[str, object]] = []
    with tarfile.open(fileobj=out, mode="w|", format=tarfile.PAX_FORMAT, bufsize=_CHUNK) as tar:
        for number, image in enumerate(images):
            layers = {f"{layer.digest.removeprefix('sha256:')}.tar": layer.path for layer in image.layers}
            for name, path in layers.items():
                if name not in written:
                    tar.add(path, name)
                    written.add(name)
            _add(tar, f"{number}.json", _config(image))
            manifest.append({"Config": f"{number}.json", "RepoTags": list(image.names), "Layers": list(layers)})
        _add(tar, "manifest.json", manifest)


def _config(image: Image) -> dict[str, object]:
    settings: dict[str, object] = {
        "Env": [f"{name}={value}" for name, value in image.environment.items()],
        "Entrypoint": list(image.entrypoint),
        "Labels": dict(image.labels),
    }
    if image.stop_signal:
        settings["StopSignal"] = image.stop_signal
    return {
        "created": "1970-01-01T00:00:00Z",
        "architecture": architecture(),
        "os": "linux",
        "config": settings,
        "rootfs": {"type": "layers", "diff_ids": [layer.digest for layer in image.layers]},
        "history": [{"created": "1970-01-01T00:00:00Z", "created_by": "gpushare"} for _ in image.layers],
    }


def _add(tar: tarfile.TarFile, name: str, document: object) -> None:
    content = json.dumps(document, separators=(",", ":")).encode()
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    tar.addfile(entry, io.BytesIO(content))
