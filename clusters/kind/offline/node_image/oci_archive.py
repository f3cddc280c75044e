"""Container images as plain files: layers, and the archive of several images that ``docker load`` and ``ctr images import`` read.

One archive obeys two rules: the OCI image layout (``oci-layout``, ``index.json``, blobs named by their digest) and
the older one of ``docker save`` (``manifest.json``), which names the same blobs. No engine and no registry is asked.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import platform
import stat
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

# The machine's architecture, as Go and the image formats call it.
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
_MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
_CONFIG: Final = "application/vnd.oci.image.config.v1+json"
_LAYER: Final = "application/vnd.oci.image.layer.v1.tar"
_CHUNK: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer: a file that is a tar, or a compressed tar."""

    path: Path
    digest: str
    """``sha256:…`` of the file as it is."""
    content_digest: str
    """``sha256:…`` of the tar in it."""
    size: int
    """Of the file, in bytes."""
    compressed: bool = False


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
    user: str = ""


def architecture() -> str:
    """This machine's, as images name it."""
    return _ARCHITECTURES.get(platform.machine(), platform.machine())


def write_layer(folder: Path, path: Path, *, leave_out: Iterable[str] = (), compressed: bool = False) -> Layer:
    """Write what is in the folder as a layer. The same content gives the same bytes: names sorted, times zero.

    Owners and modes are kept, sockets and what is below the names in ``leave_out`` (relative) are not.
    """
    content = hashlib.sha256()
    with path.open("wb") as raw, _compressing(raw, compressed) as out:
        hashing = _Hashing(out, content)
        with tarfile.open(fileobj=hashing, mode="w|", format=tarfile.PAX_FORMAT, bufsize=_CHUNK) as tar:
            _add_below(tar, folder, frozenset(leave_out))
    return _described(path, f"sha256:{content.hexdigest()}", compressed=compressed)


def _described(path: Path, content_digest: str, *, compressed: bool) -> Layer:
    if not compressed:
        return Layer(path, content_digest, content_digest, path.stat().st_size)
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return Layer(path, f"sha256:{digest}", content_digest, path.stat().st_size, compressed=True)


def _compressing(raw: IO[bytes], compressed: bool) -> IO[bytes]:
    # Level 1: a node unpacks these once, on a machine with little time.
    return gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=1, mtime=0, filename="") if compressed else raw  # type: ignore[return-value]


class _Hashing(io.RawIOBase):
    """A file that is written on and hashed."""

    def __init__(self, out: IO[bytes], content: hashlib._Hash) -> None:
        self._out = out
        self._content = content

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self._content.update(data)
        return self._out.write(data)


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
    """Write the images, each blob once. The file need not be seekable."""
    index: list[dict[str, object]] = []
    docker: list[dict[str, object]] = []
    written: set[str] = set()
    with tarfile.open(fileobj=out, mode="w|", format=tarfile.PAX_FORMAT, bufsize=_CHUNK) as tar:
        _add(tar, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
        for image in images:
            config = _json(_config(image))
            manifest = _json(_manifest(image, config))
            for layer in image.layers:
                if layer.digest not in written:
                    tar.add(layer.path, _blob(layer.digest), filter=_plain)
            _add(tar, _blob(_digest(config)), config, written)
            _add(tar, _blob(_digest(manifest)), manifest, written)
            written |= {layer.digest for layer in image.layers}
            index += [_named(name, manifest) for name in image.names]
            docker.append(
                {
                    "Config": _blob(_digest(config)),
                    "RepoTags": list(image.names),
                    "Layers": [_blob(layer.digest) for layer in image.layers],
                }
            )
        _add(tar, "index.json", _json({"schemaVersion": 2, "manifests": index}))
        _add(tar, "manifest.json", _json(docker))


def _config(image: Image) -> dict[str, object]:
    settings: dict[str, object] = {
        "Env": [f"{name}={value}" for name, value in image.environment.items()],
        "Entrypoint": list(image.entrypoint),
        "Labels": dict(image.labels),
    }
    if image.stop_signal:
        settings["StopSignal"] = image.stop_signal
    if image.user:
        settings["User"] = image.user
    return {
        "created": "1970-01-01T00:00:00Z",
        "architecture": architecture(),
        "os": "linux",
        "config": settings,
        "rootfs": {"type": "layers", "diff_ids": [layer.content_digest for layer in image.layers]},
        "history": [{"created": "1970-01-01T00:00:00Z", "created_by": "gpushare"} for _ in image.layers],
    }


def _manifest(image: Image, config: bytes) -> dict[str, object]:
    return {
        "schemaVersion": 2,
        "mediaType": _MANIFEST,
        "config": {"mediaType": _CONFIG, "digest": _digest(config), "size": len(config)},
        "layers": [
            {
                "mediaType": f"{_LAYER}+gzip" if layer.compressed else _LAYER,
                "digest": layer.digest,
                "size": layer.size,
            }
            for layer in image.layers
        ],
    }


def _named(name: str, manifest: bytes) -> dict[str, object]:
    return {
        "mediaType": _MANIFEST,
        "digest": _digest(manifest),
        "size": len(manifest),
        "platform": {"architecture": architecture(), "os": "linux"},
        # The first is containerd's and holds a whole name, the second is the layout's own and holds what is after the colon.
        "annotations": {
            "io.containerd.image.name": name,
            "org.opencontainers.image.ref.name": name.rpartition(":")[2],
        },
    }


def _add(tar: tarfile.TarFile, name: str, content: bytes, written: set[str] | None = None) -> None:
    if written is not None:
        if name in written:
            return
        written.add(name)
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    tar.addfile(entry, io.BytesIO(content))


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    entry.mode = 0o644
    return entry


def _blob(digest: str) -> str:
    return "blobs/" + digest.replace(":", "/")


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
