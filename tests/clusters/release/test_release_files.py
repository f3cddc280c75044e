"""Promises of the files of a release: checksums, wheels and the chart."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml

from clusters.deploy.chart_templates import TEMPLATES
from clusters.processes.commands import output_of
from clusters.provider import ClusterError
from clusters.release.__main__ import main, plugins
from clusters.release.release_files import (
    CHECKSUMS,
    DISTRIBUTIONS,
    NEEDED,
    PLATFORMS,
    archive,
    archive_name,
    checksums,
    entry_of,
    judge_wheels,
    package,
    values_with,
)
from e2e.pytest_plugin.try_wheels import build
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


HOMEPAGE = "https://forge.example/gpushare"


def packed(path: Path, files: dict[str, bytes]) -> Path:
    """A zip file, as wheels are, with an entry for a folder as some have."""
    with zipfile.ZipFile(path, "w") as into:
        into.mkdir("a_folder")
        for name, content in files.items():
            into.writestr(name, content)
    return path


def installed(name: str, folder: Path) -> Path:
    """The files of a distribution of this environment, as a wheel has them."""
    files = importlib.metadata.files(name) or []
    kept = [file for file in files if ".." not in file.parts and "__pycache__" not in file.parts]
    return packed(folder / f"{name}.whl", {str(file): file.read_binary() for file in kept})


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return build(tmp_path_factory.mktemp("wheels"))


@pytest.fixture(scope="module")
def whole(wheels: list[Path], tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The archive for this machine, from what is installed in the place of what the index has."""
    folder = tmp_path_factory.mktemp("needed")
    (own,) = (wheel for wheel in wheels if wheel.name.startswith("gpushare_scheduler"))
    return archive(plugins(), [own, *(installed(name, folder) for name in NEEDED)], b"licence")


def test_one_entry_of_a_list_is_taken_with_its_hashes() -> None:
    """Nothing of its neighbours comes along, and a name that the list does not have is an error."""
    text = "a==1 \\\n    --hash=sha256:0\npyyaml==6 \\\n    --hash=sha256:1 \\\n    --hash=sha256:2\nz==1\n"

    assert entry_of("pyyaml", text) == "pyyaml==6 \\\n    --hash=sha256:1 \\\n    --hash=sha256:2\n"
    with pytest.raises(ClusterError, match="has no yaml"):
        entry_of("yaml", text)


def test_wheels_for_several_pythons_lie_over_each_other(tmp_path: Path) -> None:
    """Files that are equal come once, those of each release are there, and a wheel's notes may differ."""
    one = packed(tmp_path / "1.whl", {"a/b.py": b"same", "a/c.cp311.so": b"1", "a.dist-info/WHEEL": b"1"})
    two = packed(tmp_path / "2.whl", {"a/b.py": b"same", "a/c.cp312.so": b"2", "a.dist-info/WHEEL": b"2"})
    path = tmp_path / "a.tar.gz"
    made = archive([], [one, two], b"licence")
    path.write_bytes(made)
    with tarfile.open(path) as tar:
        names = tar.getnames()

    # Four bytes of gzip for a time: the same files make the same archive.
    assert made[4:8] == bytes(4)
    assert names == ["LICENSE", "lib/a.dist-info/WHEEL", "lib/a/b.py", "lib/a/c.cp311.so", "lib/a/c.cp312.so"]


def test_wheels_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    """A text of one file for two releases of Python would run on one of them alone."""
    wheels = [packed(tmp_path / f"{text}.whl", {"a/b.py": text.encode()}) for text in ("one", "two")]

    with pytest.raises(ClusterError, match=r"two.whl: a/b.py differs"):
        archive([], wheels, b"")


@pytest.mark.thorough("the wheels are built")
def test_our_wheels_are_accepted(wheels: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    """Their names are ours, and their version is that of the programs."""
    assert main(["wheels", str(wheels[0].parent)]) == 0
    assert capsys.readouterr().out.splitlines() == [wheel.name for wheel in wheels]


@pytest.mark.thorough("the wheels are built")
def test_a_plugin_runs_without_any_other_package(whole: bytes, tmp_path: Path) -> None:
    """Through a link, as krew makes it, and on a Python that sees no installed package."""
    (tmp_path / "a.tar.gz").write_bytes(whole)
    with tarfile.open(tmp_path / "a.tar.gz") as tar:
        tar.extractall(tmp_path / "store", filter="data")
    for plugin in plugins():
        link = tmp_path / plugin.program
        link.symlink_to(tmp_path / "store" / plugin.program)
        done = subprocess.run([sys.executable, "-I", "-S", str(link), "--version"], capture_output=True, text=True)

        assert done.stdout.endswith(f" {__version__}\n"), done.stderr


@pytest.mark.thorough("the wheels are built")
async def test_krew_installs_and_kubectl_runs_each_plugin(
    krew: Path, kubectl: Path, whole: bytes, tmp_path: Path
) -> None:
    """Krew accepts manifest and archive on each platform; on this one kubectl runs the program under the name of the manifest."""
    for platform in PLATFORMS:
        (tmp_path / archive_name(__version__, platform)).write_bytes(whole)
    assert main(["krew", str(tmp_path), "--homepage", HOMEPAGE, "--url", f"{HOMEPAGE}/v{__version__}"]) == 0
    for plugin in plugins():
        for platform in PLATFORMS:
            root, (system, machine) = tmp_path / platform, platform.split("-")
            environment = {**os.environ, "KREW_ROOT": str(root), "KREW_OS": system, "KREW_ARCH": machine}
            files = (
                f"--manifest={tmp_path / plugin.name}.yaml",
                f"--archive={tmp_path / archive_name(__version__, platform)}",
            )
            await output_of([str(krew), "install", *files], environment)
            assert (root / "bin" / plugin.program).resolve().is_file()
        path = f"{tmp_path / PLATFORMS[0] / 'bin'}:{os.environ['PATH']}"
        said = await output_of([str(kubectl), plugin.name, "--version"], {**os.environ, "PATH": path})

        assert said.endswith(f" {__version__}\n")
