"""Promises of clusters.kind.offline.oci_archive: what is written is read back with tar and JSON alone."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import socket
import tarfile
from pathlib import Path

import pytest

from clusters.kind.offline.oci_archive import Image, Layer, architecture, write_archive, write_layer


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


def archive(*images: Image) -> dict[str, bytes]:
    """Member → content of the archive of these images."""
    out = io.BytesIO()
    write_archive(images, out)
    out.seek(0)
    with tarfile.open(fileobj=out) as tar:
        members = tar.getmembers()
        assert len(members) == len({member.name for member in members})
        return {member.name: tar.extractfile(member).read() for member in members}  # type: ignore[union-attr]


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


def test_a_compressed_layer_has_the_digest_of_its_tar(content: Path, tmp_path: Path) -> None:
    """Engines compare what they have unpacked."""
    plain = write_layer(content, tmp_path / "plain.tar")
    packed = write_layer(content, tmp_path / "packed.tar.gz", compressed=True)
    tar = plain.path.read_bytes()

    assert gzip.decompress(packed.path.read_bytes()) == tar
    assert plain.digest == packed.digest == f"sha256:{hashlib.sha256(tar).hexdigest()}"


def test_layer_leaves_out_what_no_container_wants(content: Path, tmp_path: Path) -> None:
    """The content of the named folders, and sockets; the folders stay."""
    (content / "dev").mkdir()
    (content / "dev/null").write_text("")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(content / "s"))
        layer = write_layer(content, tmp_path / "layer.tar", leave_out=["dev"])

    assert [name for name in names(layer) if name.startswith(("dev", "s"))] == ["dev"]


def test_an_archive_leads_to_settings_and_layers(content: Path, tmp_path: Path) -> None:
    """By the list that names each image."""
    layer = write_layer(content, tmp_path / "layer.tar")
    image = Image(("example.test/a/b:1",), (layer,), ("/run", "me"), {"PATH": "/bin"}, {"what": "test"}, "SIGINT")
    members = archive(image)
    (listed,) = json.loads(members["manifest.json"])
    config = json.loads(members[listed["Config"]])

    assert listed["RepoTags"] == ["example.test/a/b:1"]
    assert [members[name] for name in listed["Layers"]] == [layer.path.read_bytes()]
    assert config["rootfs"]["diff_ids"] == [layer.digest]
    assert config["architecture"] == architecture()
    assert config["config"] == {
        "Env": ["PATH=/bin"],
        "Entrypoint": ["/run", "me"],
        "Labels": {"what": "test"},
        "StopSignal": "SIGINT",
    }


def test_shared_layers_are_written_once(content: Path, tmp_path: Path) -> None:
    """Two images over one layer, the first under two names."""
    layer = write_layer(content, tmp_path / "layer.tar")
    first, second = json.loads(
        archive(Image(("a:1", "a:2"), (layer,)), Image(("b:1",), (layer,), ("/b",)))["manifest.json"]
    )

    assert (first["RepoTags"], second["RepoTags"]) == (["a:1", "a:2"], ["b:1"])
    assert first["Layers"] == second["Layers"]
    assert first["Config"] != second["Config"]
