"""Promises of clusters.release.plugin_archive, and of the commands that use it."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from clusters.processes.commands import output_of
from clusters.provider import ClusterError
from clusters.release.__main__ import main, plugins
from clusters.release.plugin_archive import NEEDED, PLATFORMS, archive, archive_name, entry_of
from e2e.pytest_plugin.try_wheels import build
from gpushare import __version__

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
