"""The content of the wheel ``pytest-gpushare``, laid down from a checkout. Imports nothing but the standard library.

A repository of others may have folders ``clusters``, ``e2e``, ``load`` and ``tests``. So in the wheel each dotted name of a module
of ours, in an import, in a text or in the words of a command, gets the name of the wheel's package in front.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

from clusters.kind.program_images import build_context

PACKAGE: Final = "pytest_gpushare"
_ROOTS: Final = "clusters|e2e"
# The plugin's own modules are at the top of the package.
_OWN: Final = "e2e.pytest_plugin"
# A path and a host name are no modules.
_DOTTED: Final = re.compile(rf"(?<![\w./-])({_ROOTS})((?:\.[A-Za-z_]\w*)+)")
# `from e2e import x`; `python -m e2e` in a text; "-m", "e2e" in the words of a command, in Python or YAML.
_BARE: Final = re.compile(
    rf"(\bfrom (?=\w+ import\b)|(?<![\w-])-m |\"-m\", \"|'-m', '|(?<=[\[ ])-m, )({_ROOTS})(?![\w./-]\w|\w)"
)
_PLUGIN: Final = Path("e2e/pytest_plugin")
# They build the wheel and try it.
_NOT_IN_IT: Final = tuple(
    _PLUGIN / name for name in ("hatch_build.py", "pyproject.toml", "try_wheels.py", "wheel_content.py")
)
# Tests of the harness itself: they judge no target. Sample repositories of others, and what makes releases, stay with the sources.
_OF_HARNESS: Final = (
    "e2e/parity/",
    "e2e/kind/",
    "e2e/kubelet/",
    "e2e/onsite/",
    "e2e/report/",
    "e2e/site/",
    "e2e/checkers/",
    "e2e/bursts/test_judge.py",
    "e2e/scenarios/test_upgrade.py",
)
# The cases for a cluster that is there already.
_CASES_THERE: Final = "e2e/onsite/test_onsite.py"
_STAYS: Final = ("clusters/deploy/samples/ci/", "clusters/release/", "e2e/earlier_version.py")
_TEXTS: Final = (".py", ".pyi", ".yaml", ".md")


def lay_down(checkout: Path, target: Path) -> None:
    """The package's files."""
    files = list(content(checkout))
    modules = frozenset(".".join(file.with_suffix("").parts[:2]) for file in files)
    for file in files:
        place = target / (file.relative_to(_PLUGIN) if file.is_relative_to(_PLUGIN) else file)
        place.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix not in _TEXTS:
            shutil.copy2(checkout / file, place)
            continue
        text = relocated((checkout / file).read_text(encoding="utf-8"), modules)
        place.write_text(text, encoding="utf-8")
    for folder in {place.parent for place in target.rglob("*.py")}:
        # Else pytest would take its modules for modules of the top level.
        (folder / "__init__.py").touch()
    # As they are: they go into images, in which they have their own names.
    build_context.copy(checkout, target / build_context.FOLDER)


def content(checkout: Path) -> Iterator[Path]:
    """The files that are relocated, by their paths from the top of the checkout."""
    for package in ("clusters", "e2e"):
        for path in sorted((checkout / package).rglob("*")):
            file = path.relative_to(checkout)
            if path.is_file() and "__pycache__" not in file.parts and file.suffix != ".whl" and _is_in_it(file):
                yield file


def _is_in_it(file: Path) -> bool:
    name = file.as_posix()
    is_own_test = file.name.startswith("test_") and name.startswith(_OF_HARNESS) and name != _CASES_THERE
    return file not in _NOT_IN_IT and not is_own_test and not name.startswith(_STAYS)


def relocated(text: str, modules: Collection[str]) -> str:
    """A file's text with the names of these ``modules`` (``clusters.api.waiting``, and so on) as the wheel has them. Pure."""

    def renamed(match: re.Match[str]) -> str:
        name = match[0]
        # A module, or a name in one.
        if ".".join(name.split(".")[:2]) not in modules:
            return name
        return PACKAGE + (name.removeprefix(_OWN) if f"{name}.".startswith(f"{_OWN}.") else f".{name}")

    return _BARE.sub(rf"\1{PACKAGE}.\2", _DOTTED.sub(renamed, text))
