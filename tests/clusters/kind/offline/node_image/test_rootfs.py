"""Promises of clusters.kind.offline.node_image.rootfs; a whole Debian is made by the node image's build alone."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from clusters.kind.offline.node_image.rootfs import PACKAGES, host_mirror, host_suite, key
from clusters.provider import ClusterError


def test_release_is_the_machines(tmp_path: Path) -> None:
    """With or without quotes."""
    (tmp_path / "plain").write_text('NAME="Debian"\nVERSION_CODENAME=bookworm\n')
    (tmp_path / "quoted").write_text('VERSION_CODENAME="trixie"\n')

    assert (host_suite(tmp_path / "plain"), host_suite(tmp_path / "quoted")) == ("bookworm", "trixie")


@pytest.mark.parametrize("text", ["NAME=Other\n", None], ids=["no release", "no file"])
def test_other_systems_get_a_way_out(tmp_path: Path, text: str | None) -> None:
    """Where there is no Debian to take packages from, a published image is the way."""
    if text is not None:
        (tmp_path / "os-release").write_text(text)

    with pytest.raises(ClusterError, match="names no release of Debian.*--node-image"):
        host_suite(tmp_path / "os-release")


def test_mirror_is_found_in_both_places(tmp_path: Path) -> None:
    """apt's file and apt's folder; other files there are passed over."""
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "sources.list").write_text("deb http://a.test/debian bookworm main\n")
    (tmp_path / "sources.list.d/b.sources").write_text(
        "Types: deb\nURIs: http://b.test/debian\nSuites: trixie\nComponents: main\n"
    )

    assert host_mirror("bookworm", tmp_path).url == "http://a.test/debian"
    assert host_mirror("trixie", tmp_path).url == "http://b.test/debian"


def test_no_mirror_says_where_it_was_looked_for(tmp_path: Path) -> None:
    """And what was."""
    with pytest.raises(ClusterError, match=f"{tmp_path}: no source has main of sid"):
        host_mirror("sid", tmp_path)


def test_key_depends_on_the_release() -> None:
    """Two releases are never taken for each other."""
    assert key("bookworm") == key("bookworm") != key("trixie")


def test_packages_hold_what_the_scripts_call() -> None:
    """A node without one of these comes up and then fails in ways that are hard to read."""
    packages = yaml.safe_load(PACKAGES.read_text())

    assert {"curl", "dnsmasq-base", "iproute2", "iptables", "jq", "runc", "systemd"} <= {*packages["node"]}
    assert "usr/lib/*/xtables/*.so" in packages["packet-filter"]
