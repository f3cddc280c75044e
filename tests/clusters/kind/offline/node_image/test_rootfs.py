"""Promises of clusters.kind.offline.node_image.rootfs; a whole Debian is made by the node image's build alone."""

from __future__ import annotations

import yaml

from clusters.kind.offline.node_image.rootfs import PACKAGES, key


def test_key_depends_on_the_release() -> None:
    """Two releases are never taken for each other."""
    assert key("bookworm") == key("bookworm") != key("trixie")


def test_packages_hold_what_the_scripts_call() -> None:
    """A node without one of these comes up and then fails in ways that are hard to read."""
    packages = yaml.safe_load(PACKAGES.read_text())

    assert {"curl", "dnsmasq-base", "iproute2", "iptables", "jq", "runc", "systemd"} <= {*packages["node"]}
    assert "usr/lib/*/xtables/*.so" in packages["packet-filter"]
