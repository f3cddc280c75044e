"""The files that Docker needs to build our images. Imports nothing but the standard library: it also lays down a wheel."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

# Below the top of the harness where that is a wheel: its own modules have other names.
FOLDER: Final = "image_sources"
_HERE: Final = "clusters/kind/program_images"
READY: Final = f"{_HERE}/ready"
_FILES: Final = (
    "Dockerfile",
    ".dockerignore",
    *(f".ci/constraints/{name}.txt" for name in ("build", "compiler", "product")),
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "clusters/__init__.py",
    "clusters/kind/__init__.py",
    f"{_HERE}/__init__.py",
    f"{_HERE}/compiled_images.py",
)
_FOLDERS: Final = ("gpushare", "fake_nvml", f"{_HERE}/files", f"{_HERE}/player", READY)


def sources(top: Path) -> Path:
    """Where they are: the checkout, or the folder in a wheel that has them."""
    return top / FOLDER if (top / FOLDER).is_dir() else top


def copy(checkout: Path, target: Path) -> None:
    """A build context: nothing that changes in the checkout from now on changes what is built."""
    for name in _FILES:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(checkout / name, target / name)
    for name in _FOLDERS:
        ignore = shutil.ignore_patterns("__pycache__", "*.whl")
        shutil.copytree(checkout / name, target / name, ignore=ignore, dirs_exist_ok=True)
