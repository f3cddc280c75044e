"""Promises of preload, with the programs that go into the image (skipped while they are not built)."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from clusters.controlplane import binaries
from clusters.kind.offline.node_image import node_programs
from clusters.kind.offline.node_image.preload import image_of, names_of, store
from clusters.kind.offline.oci_archive import write_layer
from clusters.provider import ClusterError

ENVIRONMENT = dict(os.environ)
MINOR = node_programs.minors()[0]


@pytest.fixture(scope="module")
def built() -> dict[str, Path]:
    """The programs of the cache."""
    found = {
        program: path
        for module in node_programs.modules(MINOR)
        for program, path in binaries.cached(module, ENVIRONMENT).items()
    }
    if missing := {"kubeadm", "containerd", "ctr"} - {*found}:
        pytest.skip(f"{', '.join(sorted(missing))} not built: `make kind-image` does")
    return found


def test_every_image_has_the_name_that_kubeadm_asks_for(built: dict[str, Path]) -> None:
    """None of ours is missing there, and kubeadm asks for none that we do not have."""
    version = node_programs.modules(MINOR)[0].version
    asked = names_of(built["kubeadm"], version, ENVIRONMENT)

    assert {*asked} == {*node_programs.IMAGE_PROGRAMS}
    assert asked["kube-apiserver"] == f"registry.k8s.io/kube-apiserver:{version}"
    assert asked["coredns"].startswith("registry.k8s.io/coredns/coredns:")


def test_image_of_a_program_starts_it(tmp_path: Path) -> None:
    """By its path, over the files below, and with its true version, whatever its name is."""
    (tmp_path / "below").mkdir()
    (tmp_path / "program").write_text("#!")
    below = write_layer(tmp_path / "below", tmp_path / "below.tar")
    image = image_of("etcd", "x/etcd:3-0", tmp_path / "program", "v3.6.16", tmp_path, [below])

    assert image.entrypoint == ("/usr/local/bin/etcd",)
    assert image.layers[0] == below
    assert image.names == ("x/etcd:3-0",)
    assert image.labels["org.opencontainers.image.version"] == "v3.6.16"


@pytest.mark.skipif(os.geteuid() != 0, reason="containerd needs root")
def test_store_holds_the_images_as_they_are(built: dict[str, Path], tmp_path: Path) -> None:
    """Each blob under its digest, nothing unpacked, nothing of containerd left behind."""
    (tmp_path / "program").write_text("#!/bin/true\n")
    image = image_of("etcd", "example.test/etcd:1", tmp_path / "program", "v1", tmp_path, [])
    store([image], built["containerd"], built["ctr"], tmp_path, ENVIRONMENT)
    blobs = tmp_path / "root/io.containerd.content.v1.content/blobs/sha256"
    snapshots = tmp_path / "root/io.containerd.snapshotter.v1.overlayfs/snapshots"
    contents = [blob.read_bytes() for blob in blobs.iterdir()]

    assert image.layers[0].path.read_bytes() in contents
    assert any(content.startswith(b"{") and "rootfs" in json.loads(content) for content in contents)
    assert not snapshots.exists() or not list(snapshots.iterdir())
    assert not (tmp_path / "images.tar").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="containerd needs root")
def test_containerd_that_does_not_start_is_shown(built: dict[str, Path], tmp_path: Path) -> None:
    """A containerd that does not start is reported immediately and with its error."""
    (tmp_path / "program").write_text("")
    image = image_of("etcd", "example.test/etcd:1", tmp_path / "program", "v1", tmp_path, [])
    (tmp_path / "refuses").write_text("#!/bin/sh\necho no disk; exit 1\n")
    (tmp_path / "refuses").chmod(0o755)

    started = time.monotonic()
    with pytest.raises(ClusterError, match="does not start:\nno disk"):
        store([image], tmp_path / "refuses", built["ctr"], tmp_path, ENVIRONMENT)

    # Half of the time that one which starts is given.
    assert time.monotonic() - started < 15
