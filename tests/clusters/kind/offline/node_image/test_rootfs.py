"""Promises of clusters.kind.offline.node_image.rootfs; a whole Debian is made by the node image's build alone."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from clusters.kind.offline.node_image.rootfs import PACKAGES, copy_programs, key, libraries_of


def test_key_depends_on_the_release() -> None:
    """Two releases are never taken for each other."""
    assert key("bookworm") == key("bookworm") != key("trixie")


def test_packages_hold_what_the_scripts_call() -> None:
    """A node without one of these comes up and then fails in ways that are hard to read."""
    packages = yaml.safe_load(PACKAGES.read_text())

    assert {"curl", "dnsmasq-base", "iproute2", "iptables", "jq", "runc", "systemd"} <= {*packages["node"]}
    assert "usr/lib/*/xtables/*.so" in packages["packet-filter"]


LISTED = """/usr/sbin/nft:
\tlinux-vdso.so.1 (0x00007ffc)
\tlibnftables.so.1 => /lib/x86_64-linux-gnu/libnftables.so.1 (0x00007f00)
\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f01)
\t/lib64/ld-linux-x86-64.so.2 (0x00007f02)
/usr/lib/x86_64-linux-gnu/xtables/libxt_statistic.so:
\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f01)
/usr/sbin/static:
\tstatically linked
"""


def test_libraries_are_the_files_that_the_linker_names() -> None:
    """Each once, the loader too; the kernel's own is no file."""
    folder = "/lib/x86_64-linux-gnu"
    expected = [f"{folder}/libc.so.6", f"{folder}/libnftables.so.1", "/lib64/ld-linux-x86-64.so.2"]

    assert libraries_of(LISTED) == expected


@pytest.mark.skipif(os.geteuid() != 0, reason="chroot needs root")
def test_what_is_copied_runs_alone(tmp_path: Path) -> None:
    """A program, behind a link, starts in a root that has nothing but what was copied for it."""
    printf = shutil.which("printf", path="/usr/bin:/bin")
    if printf is None:
        pytest.skip("no printf here")
    copy_programs(Path("/"), [printf.lstrip("/")], tmp_path, {"PATH": os.environ["PATH"]})
    argv = ["chroot", str(tmp_path), printf, "alone"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (0, "alone")
