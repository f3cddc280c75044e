"""Promises of clusters.release.release_files."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path

import pytest

from clusters.provider import ClusterError
from clusters.release.release_files import CHECKSUMS, DISTRIBUTIONS, checksums, judge_wheels


def wheel(folder: Path, name: str, version: str = "1.2.3") -> Path:
    """A wheel that has its metadata alone."""
    stem = f"{name.replace('-', '_')}-{version}"
    with zipfile.ZipFile(folder / f"{stem}-py3-none-any.whl", "w") as packed:
        packed.writestr(f"{stem}.dist-info/METADATA", f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n")
    return folder / f"{stem}-py3-none-any.whl"


def test_all_our_wheels_in_the_version_are_accepted(tmp_path: Path) -> None:
    """Each of them is returned."""
    expected = [wheel(tmp_path, name) for name in DISTRIBUTIONS]

    assert judge_wheels(tmp_path, "1.2.3") == expected


@pytest.mark.parametrize(
    ("others", "missing"),
    [
        ([("gpushare", "1.2.3")], ""),
        ([("fake-nvml", "1.2.4")], "fake-nvml"),
        ([], "pytest-gpushare"),
        ([("gpushare-scheduler", "1.2.2")], ""),
    ],
    ids=["the name of a stranger's package", "another version", "one is missing", "a former one beside it"],
)
def test_other_wheels_are_refused(tmp_path: Path, others: list[tuple[str, str]], missing: str) -> None:
    """The error lists what is there and what should be."""
    for name in DISTRIBUTIONS:
        if name != missing:
            wheel(tmp_path, name)
    for name, version in others:
        wheel(tmp_path, name, version)

    with pytest.raises(ClusterError, match="and should have fake-nvml 1.2.3, "):
        judge_wheels(tmp_path, "1.2.3")


def test_sha256sum_accepts_the_checksums(tmp_path: Path) -> None:
    """The list has each file but itself, and a file that changes is found."""
    (tmp_path / "a.tgz").write_bytes(b"a")
    (tmp_path / "b.whl").write_bytes(b"b")
    (tmp_path / CHECKSUMS).write_text("")
    (tmp_path / CHECKSUMS).write_text(checksums(tmp_path))
    argv = ["sha256sum", "--check", CHECKSUMS]

    assert subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True).stdout == "a.tgz: OK\nb.whl: OK\n"
    (tmp_path / "b.whl").write_bytes(b"c")
    assert subprocess.run(argv, cwd=tmp_path, capture_output=True).returncode == 1
