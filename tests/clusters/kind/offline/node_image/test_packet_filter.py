"""Promises of packet_filter; the copy as a whole is made with this machine's own files as the Debian."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from clusters.kind.offline.node_image.packet_filter import copy_programs, libraries_of, real_path

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


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("usr/bin/plain", "usr/bin/plain"),
        ("bin/plain", "usr/bin/plain"),
        ("bin/absolute", "usr/bin/plain"),
        ("bin/up", "usr/bin/plain"),
        ("bin/twice", "usr/bin/plain"),
        ("bin/missing", "usr/bin/missing"),
    ],
)
def test_links_are_followed_inside_the_root(tmp_path: Path, asked: str, expected: str) -> None:
    """An absolute link starts at the root that is meant, not at this machine's."""
    (tmp_path / "usr/bin").mkdir(parents=True)
    (tmp_path / "bin").symlink_to("usr/bin")
    (tmp_path / "usr/bin/plain").write_text("")
    (tmp_path / "usr/bin/absolute").symlink_to("/usr/bin/plain")
    (tmp_path / "usr/bin/up").symlink_to("../../bin/plain")
    (tmp_path / "usr/bin/twice").symlink_to("/bin/absolute")

    assert real_path(tmp_path, tmp_path / asked) == tmp_path / expected


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
