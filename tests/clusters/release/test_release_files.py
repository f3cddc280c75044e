"""Promises of the files of a release: checksums, wheels and the chart."""

from __future__ import annotations

import os
import subprocess
import zipfile
from pathlib import Path

import pytest
import yaml

from clusters.deploy.chart_templates import TEMPLATES
from clusters.processes.commands import output_of
from clusters.provider import ClusterError
from clusters.release.release_files import CHECKSUMS, DISTRIBUTIONS, checksums, judge_wheels, package, values_with
from gpushare import __version__


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


VALUES = (TEMPLATES.parent / "values.yaml").read_text()
ONE, TWO = f"sha256:{'1' * 64}", f"sha256:{'2' * 64}"


def test_the_values_name_the_images_of_the_registry() -> None:
    """With their digests, and nothing else changes."""
    got = yaml.safe_load(values_with(VALUES, "registry.example/a", {"extender": ONE, "device-plugin": TWO}))
    expected = yaml.safe_load(VALUES)
    expected["extender"]["image"] |= {"repository": "registry.example/a/extender", "digest": ONE}
    expected["devicePlugin"]["image"] |= {"repository": "registry.example/a/device-plugin", "digest": TWO}

    assert got == expected


def test_what_is_no_digest_is_refused() -> None:
    """An empty answer of a registry, or one with text around it, reaches no chart."""
    with pytest.raises(ClusterError, match="is no digest of extender"):
        values_with(VALUES, "r/a", {"extender": f"Digest: {ONE}"})


async def test_helm_renders_the_packed_chart(helm: Path, tmp_path: Path) -> None:
    """Its pods run the images of the registry by digest, and its version is that of the programs."""
    environment = dict(os.environ)
    packed = package("registry.example/a", {"extender": ONE, "device-plugin": TWO}, tmp_path, environment)
    assert packed.name == f"gpushare-{__version__}.tgz"
    options = ["--namespace", "kube-system", "--kube-version", "1.36.0"]
    text = await output_of([str(helm), "template", "gpushare", str(packed), *options], environment)
    workloads = [one for one in yaml.safe_load_all(text) if one and one["kind"] in ("Deployment", "DaemonSet")]

    assert {one["spec"]["template"]["spec"]["containers"][0]["image"] for one in workloads} == {
        f"registry.example/a/extender@{ONE}",
        f"registry.example/a/device-plugin@{TWO}",
    }
    assert {one["metadata"]["labels"]["app.kubernetes.io/version"] for one in workloads} == {__version__}
