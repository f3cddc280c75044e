"""``python -m e2e.pytest_plugin.try_wheels``: what a stranger does, in an empty environment, with wheels of this checkout.

Builds the three wheels, installs them and the locked lists, runs the tests of the sample repository, and then some cases by
``--pyargs`` there. Nothing of the checkout is on the path of Python.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from clusters.release.release_files import entry_of

T = TypeVar("T")

_CHECKOUT: Final = Path(__file__).parents[2]
SAMPLE: Final = "clusters/deploy/samples/ci"
# The distributions, by their folders.
_SOURCES: Final = (".", "fake_nvml", "e2e/pytest_plugin")
_LISTS: Final = ("build", "product", "cluster", "harness")
# A few cases of each kind: that they are found, get their options, and judge.
CASES: Final = ("extender.test_binding", "device_plugin.test_pod_resources", "scenarios.test_sharing")


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0 if all passed, 1 if not."""
    parser = argparse.ArgumentParser(prog="python -m e2e.pytest_plugin.try_wheels", description=__doc__)
    parser.add_argument("--wheels", type=Path, metavar="FOLDER", help="keep the wheels here")
    parser.add_argument("--build-only", action="store_true", help="build them, and run nothing")
    parser.add_argument("--on", nargs="+", default=["embedded"], metavar="CLUSTER", help="where the sample's tests run")
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="gpushare-wheels-") as folder:
        work = Path(folder)
        try:
            wheels = _timed("the wheels are built", lambda: build(arguments.wheels or work / "wheels"))
            if arguments.build_only:
                return 0
            python = _timed("they are installed", lambda: install(wheels, work / "venv"))
            _timed("the cards alone are shown", lambda: try_cards(wheels, work / "cards"))
            repository = Path(shutil.copytree(_CHECKOUT / SAMPLE, work / "repository"))
            for cluster in arguments.on:
                sample = (python, "-m", "pytest", "--gpu-cluster", cluster)
                _timed(f"the sample's tests have passed on {cluster}", partial(run, *sample, folder=repository))
            cases = [f"pytest_gpushare.e2e.{case}" for case in CASES]
            at_once = ("-q", "-n", "2", "--dist", "loadfile", "--gpu-target", "gpushare")
            words = ("-m", "pytest", *at_once, "--pyargs", *cases)
            _timed("cases by --pyargs have passed", lambda: run(python, *words, folder=repository))
        except subprocess.CalledProcessError as error:
            print(f"ended with {error.returncode}: {error.cmd}", file=sys.stderr)  # noqa: T201  # a command's error
            return 1
    return 0


def build(folder: Path, checkout: Path = _CHECKOUT, sources: Sequence[str] = _SOURCES) -> list[Path]:
    """The three wheels, or those of another checkout, into a folder; by the backend that `make` installed."""
    folders = [str(checkout / name) for name in sources]
    options = ("--quiet", "--no-deps", "--no-build-isolation", f"--wheel-dir={folder}")
    run(sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", *options, *folders, folder=checkout)
    return sorted(folder.absolute().glob("*.whl"))


def install(wheels: Sequence[Path], folder: Path, checkout: Path = _CHECKOUT, lists: Sequence[str] = _LISTS) -> Path:
    """The Python of a new environment that has the wheels and what they need, by the lists of a checkout.

    The lists are complete, so nothing is resolved; at the end the metadata of all is compared.
    """
    python = _environment(folder)
    # One after the other: a distribution is in one list.
    listed = [f"--requirement={checkout}/.ci/constraints/{name}.txt" for name in lists]
    run(*_pip(python), "install", "--require-hashes", "--no-deps", *listed, folder=folder)
    run(*_pip(python), "install", "--no-index", "--no-deps", *wheels, folder=folder)
    run(*_pip(python), "check", folder=folder)
    return python


def _environment(folder: Path) -> Path:
    """The Python of a new environment without pip: ours is newer, and fills it in less time."""
    run(sys.executable, "-m", "venv", "--without-pip", str(folder), folder=_CHECKOUT)
    return folder / "bin" / "python"


def _pip(python: Path) -> tuple[str | Path, ...]:
    return (sys.executable, "-m", "pip", "--python", python, "--quiet", "--disable-pip-version-check")


def try_cards(wheels: Sequence[Path], folder: Path) -> None:
    """`fake-nvml` in an environment that has its own wheel and YAML, and nothing of the product."""
    pip = _pip(_environment(folder))
    needed = folder / "needed.txt"
    needed.write_text(entry_of("pyyaml", (_CHECKOUT / ".ci/constraints/product.txt").read_text(encoding="utf-8")))
    run(*pip, "install", "--require-hashes", f"--requirement={needed}", folder=folder)
    run(*pip, "install", "--no-index", *(wheel for wheel in wheels if "fake_nvml" in wheel.name), folder=folder)
    for words in (("init", "--box", "t4x2"), ("show",)):
        run(folder / "bin" / "fake-nvml", *words, "--state", folder / "state", folder=folder)


def run(*argv: str | Path, folder: Path) -> None:
    """Run a command to its end. Raises CalledProcessError."""
    subprocess.run([str(word) for word in argv], cwd=folder, env=bare(os.environ), check=True)


def bare(environment: Mapping[str, str]) -> dict[str, str]:
    """Without what would lead Python, pytest or make back to the checkout."""
    taken = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "MAKEFLAGS", "PYTHONDONTWRITEBYTECODE")
    return {name: value for name, value in environment.items() if name not in taken and not name.startswith("PYTEST")}


def _timed(what: str, act: Callable[[], T]) -> T:
    begun = time.monotonic()
    value = act()
    print(f"{what}: {time.monotonic() - begun:.1f} s", flush=True)  # noqa: T201  # a command's output
    return value


if __name__ == "__main__":
    sys.exit(main())
