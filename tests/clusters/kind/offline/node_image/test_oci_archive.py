"""Promises of clusters.kind.offline.node_image.oci_archive: what is written is read back with tar and JSON alone."""

from __future__ import annotations

import hashlib
import io
import json
import os
import socket
import tarfile
from pathlib import Path

import pytest

from clusters.kind.offline.node_image.oci_archive import Image, Layer, architecture, write_archive, write_layer


@pytest.fixture
def content(tmp_path: Path) -> Path:
    """A folder with a file of two names, a link and an empty folder."""
    folder = tmp_path / "content"
    (folder / "etc/empty").mkdir(parents=True)
    (folder / "etc/hosts").write_text("127.0.0.1 localhost\n")
    (folder / "etc/hosts").chmod(0o640)
    os.link(folder / "etc/hosts", folder / "etc/zweite")
    (folder / "link").symlink_to("/dev/null")
    return folder


def names(layer: Layer) -> list[str]:
    with tarfile.open(layer.path) as tar:
        return tar.getnames()


def sha256(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def archive(*images: Image) -> dict[str, bytes]:
    """Member → content of the archive of these images."""
    out = io.BytesIO()
    write_archive(images, out)
    out.seek(0)
    with tarfile.open(fileobj=out) as tar:
        members = tar.getmembers()
        assert len(members) == len({member.name for member in members})
        return {member.name: tar.extractfile(member).read() for member in members}  # type: ignore[union-attr]


def blob(members: dict[str, bytes], digest: str) -> bytes:
    found = members["blobs/" + digest.replace(":", "/")]
    assert sha256(found) == digest
    return found


def test_layer_holds_what_the_folder_holds(content: Path, tmp_path: Path) -> None:
    """Files, second names, links, empty folders, modes."""
    layer = write_layer(content, tmp_path / "layer.tar")

    with tarfile.open(layer.path) as tar:
        assert tar.getnames() == ["etc", "etc/empty", "etc/hosts", "etc/zweite", "link"]
        assert tar.getmember("etc/hosts").mode == 0o640
        assert tar.getmember("etc/zweite").linkname == "etc/hosts"
        assert tar.getmember("link").linkname == "/dev/null"


def test_same_content_is_the_same_layer(content: Path, tmp_path: Path) -> None:
    """Times do not count, so that an engine sees that it has a layer."""
    first = write_layer(content, tmp_path / "first.tar")
    os.utime(content / "etc/hosts", (1, 1))
    second = write_layer(content, tmp_path / "second.tar")
    (content / "etc/hosts").write_text("other\n")
    third = write_layer(content, tmp_path / "third.tar")

    assert first.digest == second.digest
    assert second.digest != third.digest


def test_layer_is_described_by_its_own_bytes(content: Path, tmp_path: Path) -> None:
    """The digest is of the file; that of the content is of the tar in it, compressed or not."""
    plain = write_layer(content, tmp_path / "plain.tar")
    packed = write_layer(content, tmp_path / "packed.tar.gz", compressed=True)

    assert plain.digest == plain.content_digest == sha256(plain.path.read_bytes())
    assert packed.digest == sha256(packed.path.read_bytes())
    assert packed.size == packed.path.stat().st_size
    assert packed.content_digest == plain.content_digest != packed.digest


def test_layer_leaves_out_what_no_container_wants(content: Path, tmp_path: Path) -> None:
    """The content of the named folders, and sockets; the folders stay."""
    (content / "dev").mkdir()
    (content / "dev/null").write_text("")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(content / "s"))
        layer = write_layer(content, tmp_path / "layer.tar", leave_out=["dev"])

    assert [name for name in names(layer) if name.startswith(("dev", "s"))] == ["dev"]


@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "compressed"])
def test_both_readers_find_the_same_image(content: Path, tmp_path: Path, *, compressed: bool) -> None:
    """Docker's list and the OCI index lead to the same settings and the same layers, each under its digest."""
    layer = write_layer(content, tmp_path / "layer.tar", compressed=compressed)
    image = Image(("example.test/a/b:1",), (layer,), ("/run", "me"), {"PATH": "/bin"}, {"what": "test"}, "SIGINT", "7")
    members = archive(image)

    (docker,) = json.loads(members["manifest.json"])
    (indexed,) = json.loads(members["index.json"])["manifests"]
    manifest = json.loads(blob(members, indexed["digest"]))
    config = json.loads(blob(members, manifest["config"]["digest"]))
    blob(members, layer.digest)
    assert docker["RepoTags"] == [indexed["annotations"]["io.containerd.image.name"]] == ["example.test/a/b:1"]
    assert json.loads(members[docker["Config"]]) == config
    assert docker["Layers"] == ["blobs/" + manifest["layers"][0]["digest"].replace(":", "/")]
    assert manifest["layers"][0]["mediaType"].endswith("+gzip") == compressed
    assert config["rootfs"]["diff_ids"] == [layer.content_digest]
    assert config["architecture"] == architecture()
    assert config["config"] == {
        "Env": ["PATH=/bin"],
        "Entrypoint": ["/run", "me"],
        "Labels": {"what": "test"},
        "StopSignal": "SIGINT",
        "User": "7",
    }


def test_shared_layers_are_written_once(content: Path, tmp_path: Path) -> None:
    """Two images over one layer; the same image under two names."""
    layer = write_layer(content, tmp_path / "layer.tar")
    members = archive(Image(("a:1", "a:2"), (layer,)), Image(("b:1",), (layer,), ("/b",)))

    assert [entry["RepoTags"] for entry in json.loads(members["manifest.json"])] == [["a:1", "a:2"], ["b:1"]]
    index = json.loads(members["index.json"])["manifests"]
    assert [entry["annotations"]["io.containerd.image.name"] for entry in index] == ["a:1", "a:2", "b:1"]
    assert index[0]["digest"] == index[1]["digest"] != index[2]["digest"]
