"""The parts of a small Debian that stay, and those that go."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusters.kind.offline.trim import closure, paragraphs, trim

STATUS = """\
Package: python3
Status: install ok installed
Pre-Depends: python3-minimal (= 3.11.2-1)
Depends: libc6 (>= 2.34), mailcap | shared-mime-info

Package: python3-minimal
Depends: dpkg (>= 1.13.20)

Package: libc6
Depends: libgcc-s1, libcrypt1:any (>= 1:4.4.10-10)

Package: libgcc-s1

Package: libcrypt1

Package: dpkg
Depends: tar

Package: mailcap

Package: shared-mime-info

Package: tar
"""


def test_dependencies_are_followed_but_not_into_package_tools() -> None:
    """Also those of versions, of architectures, and alternatives."""
    kept = closure(paragraphs(STATUS), ["python3"], ["dpkg", "mailcap"])

    assert kept == {"python3", "python3-minimal", "libc6", "libgcc-s1", "libcrypt1", "shared-mime-info"}


def test_a_wanted_package_must_be_there() -> None:
    """A base without it would fail only when an image of it starts."""
    with pytest.raises(KeyError, match="dash"):
        closure(paragraphs(STATUS), ["dash"])


def make_root(root: Path) -> None:
    """Two packages: one is Python's, the other is not needed; the second names a file by way of the link /lib."""
    names = ("python3", "tzdata", "libstdc++6", "zlib1g", "dash", "base-files", "base-passwd")
    status = "\n".join(f"Package: {name}\n" for name in (*names, "perl"))
    records = {
        "python3": ["/.", "/usr", "/usr/bin", "/usr/bin/python3", "/usr/lib/both"],
        "perl": [
            "/.",
            "/usr",
            "/usr/bin",
            "/usr/bin/perl",
            "/lib/both",
            "/lib/only",
            "/usr/share/perl",
            "/usr/share/perl/a",
        ],
    }
    for folder in (
        "usr/bin",
        "usr/lib",
        "usr/share/perl",
        "usr/share/doc/python3",
        "usr/share/locale/de",
        "var/lib/dpkg/info",
    ):
        (root / folder).mkdir(parents=True)
    (root / "lib").symlink_to("usr/lib")
    for name in (
        "usr/bin/python3",
        "usr/bin/perl",
        "usr/lib/both",
        "usr/lib/only",
        "usr/share/perl/a",
        "usr/lib/generated",
    ):
        (root / name).write_text("x")
    (root / "usr/share/doc/python3/copyright").write_text("licence")
    (root / "usr/share/doc/python3/changelog").write_text("long")
    (root / "var/lib/dpkg/status").write_text(status)
    for name, files in records.items():
        (root / f"var/lib/dpkg/info/{name}.list").write_text("\n".join(files) + "\n")


def test_files_of_other_packages_go_and_all_else_stays(tmp_path: Path) -> None:
    """Shared files, files that no package owns, and licences stay; empty folders go with their package."""
    make_root(tmp_path)
    trim(tmp_path)
    left = {path.relative_to(tmp_path).as_posix() for path in (tmp_path / "usr").rglob("*") if path.is_file()}

    assert left == {"usr/bin/python3", "usr/lib/both", "usr/lib/generated", "usr/share/doc/python3/copyright"}
    assert not (tmp_path / "usr/share/perl").exists()
    assert "perl" not in paragraphs((tmp_path / "var/lib/dpkg/status").read_text())
