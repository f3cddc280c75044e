"""In the wheel no module of ours has a name that a folder of another repository may have."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from e2e.pytest_plugin.wheel_content import lay_down, relocated
from tests.tracked_files import ROOT

MODULES = frozenset({"clusters", "clusters.api", "clusters.kind", "e2e", "e2e.spec", "e2e.pytest_plugin"})
# Each import of a package of another repository fails, and each module of ours is imported but those that are programs.
IMPORT_ALL = """
import importlib, pathlib, sys
for name in ("clusters", "e2e", "load", "tests", "docs", "gpushare"):
    sys.modules[name] = None
sys.path.insert(0, sys.argv[1])
top = pathlib.Path(sys.argv[1])
for path in sorted(top.rglob("*.py")):
    parts = path.relative_to(top).with_suffix("").parts
    if "image_sources" in parts or not {"__main__", "generate", "files"}.isdisjoint(parts):
        continue
    importlib.import_module(".".join(parts).removesuffix(".__init__"))
    print(".".join(parts))
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("from clusters.api import x", "from pytest_gpushare.clusters.api import x"),
        ("from e2e import spec", "from pytest_gpushare.e2e import spec"),
        ("from e2e.pytest_plugin.gpu_cluster import x", "from pytest_gpushare.gpu_cluster import x"),
        ("package = 'clusters.api.proto'", "package = 'pytest_gpushare.clusters.api.proto'"),
        ('argv = [python, "-m", "clusters", "up"]', 'argv = [python, "-m", "pytest_gpushare.clusters", "up"]'),
        ("argv: [python3, -m, e2e.spec, --port]", "argv: [python3, -m, pytest_gpushare.e2e.spec, --port]"),
        ("argv: [python3, -m, clusters]", "argv: [python3, -m, pytest_gpushare.clusters]"),
        ("# run `python -m e2e preflight` before", "# run `python -m pytest_gpushare.e2e preflight` before"),
    ],
)
def test_each_way_of_naming_a_module_is_renamed(text: str, expected: str) -> None:
    """Imports, texts and commands name the module where the wheel has it."""
    assert relocated(text, MODULES) == expected


@pytest.fixture(scope="module")
def laid_down(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The content of the wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    lay_down(ROOT, folder / "pytest_gpushare")
    return folder


@pytest.mark.thorough("imports every module of the harness")
def test_all_modules_of_the_wheel_import_only_its_own(laid_down: Path) -> None:
    """Though packages called ``clusters``, ``e2e``, ``load`` and ``tests`` cannot be imported at all."""
    argv = [sys.executable, "-I", "-c", IMPORT_ALL, str(laid_down)]
    done = subprocess.run(argv, cwd=laid_down, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert {"pytest_gpushare.e2e.conftest", "pytest_gpushare.clusters.local_cluster"} <= set(done.stdout.split())


def test_the_wheel_has_no_sample_and_no_test_of_the_harness(laid_down: Path) -> None:
    """The cases judge a target: tests of the harness itself and the sample repository stay with the sources."""
    names = {path.relative_to(laid_down / "pytest_gpushare").as_posix() for path in laid_down.rglob("*")}

    assert {"gpu_options.py", "e2e/extender/test_binding.py", "image_sources/Dockerfile"} <= names
    assert not [name for name in names if name.startswith(("e2e/report/test_", "clusters/deploy/samples/ci"))]
    assert not names & {"wheel_content.py", "hatch_build.py", "e2e/bursts/test_judge.py"}
