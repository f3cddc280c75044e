"""The import contracts hold, and each planted violation breaks them: a check that cannot fail is none."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("gpushare", "fake_nvml", "clusters", "e2e", "load")

PLANTED = {
    "a clock in placement": ("gpushare/model/placement.py", "import time"),
    "logging in filter": ("gpushare/extender/core/filter.py", "import logging"),
    "the API server in the model": ("gpushare/model/node.py", "import gpushare.kube.client"),
    "the book in filter": ("gpushare/extender/core/filter.py", "import gpushare.extender.core.book"),
    "the fake in the NVML edge": ("gpushare/nvml/library.py", "import fake_nvml.state"),
    "the extender in the plugin": (
        "gpushare/deviceplugin/allocation/owner.py",
        "import gpushare.extender.core.filter",
    ),
    "the product in a case": ("e2e/spec.py", "import gpushare.wire"),
    "the product in the kubelet": ("clusters/kubelet/kubelet.py", "import gpushare.wire"),
    "a provider in the kubelet": ("clusters/kubelet/kubelet.py", "import clusters.embedded.apiserver.store"),
    "the real control plane in the embedded one": (
        "clusters/embedded/embedded_control_plane.py",
        "import clusters.controlplane.real_control_plane",
    ),
    "gRPC in the extender": ("gpushare/extender/bind.py", "import grpc"),
    "a clock in the core of the simulated cards": ("fake_nvml/core/values.py", "import time"),
    "a new folder without a contract": ("gpushare/utils.py", ""),
}


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources, to be broken."""
    folder = tmp_path_factory.mktemp("contracts")
    for package in PACKAGES:
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run import-linter on the copy."""
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as c; c(['--no-cache'])"]
    environment = {"PYTHONPATH": str(folder), "PATH": "/usr/bin:/bin"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_the_contracts_hold(copied: Path) -> None:
    """On the sources as they are."""
    result = lint(copied)

    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_violation_is_found(copied: Path, name: str) -> None:
    """Each rule of the layout, broken once."""
    path, line = PLANTED[name]
    file = copied / path
    before = file.read_text() if file.exists() else None
    file.write_text((before or "") + f"\n{line}\n")
    try:
        result = lint(copied)
    finally:
        file.unlink() if before is None else file.write_text(before)

    assert result.returncode != 0, result.stdout
    assert "Traceback" not in result.stderr
