"""The content of an image: the files of the checkout, copied into a build context, and their digest."""

from __future__ import annotations

import hashlib
import json
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

CHECKOUT: Final = Path(__file__).parents[3]
_HERE: Final = "clusters/kind/program_images"
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
_FOLDERS: Final = ("gpushare", "fake_nvml", f"{_HERE}/files", f"{_HERE}/player", f"{_HERE}/ready")
# They come along, and change nothing that runs; of pyproject.toml only what a wheel is made by counts.
_NOT_COUNTED: Final = ("README.md", "LICENSE", "pyproject.toml", ".dockerignore")
_WHEEL_TABLES: Final = ("project", "build-system")


def copy(checkout: Path, target: Path) -> None:
    """A build context: nothing that changes in the checkout from now on changes what is built."""
    for name in _FILES:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(checkout / name, target / name)
    for name in _FOLDERS:
        ignore = shutil.ignore_patterns("__pycache__", "*.whl")
        shutil.copytree(checkout / name, target / name, ignore=ignore, dirs_exist_ok=True)


def digest(context: Path, *further: str) -> str:
    """All that decides what the programs' images hold, in 12 hexadecimal digits; ``further`` is what is not in the context."""
    tables = tomllib.loads((context / "pyproject.toml").read_text())
    content = hashlib.sha256(json.dumps({name: tables[name] for name in _WHEEL_TABLES}, sort_keys=True).encode())
    for part in further:
        content.update(part.encode() + b"\0")
    for path in _counted(context):
        content.update(path.relative_to(context).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return content.hexdigest()[:12]


def _counted(context: Path) -> Iterator[Path]:
    for path in sorted(context.rglob("*")):
        if path.is_file() and path.relative_to(context).as_posix() not in _NOT_COUNTED:
            yield path
