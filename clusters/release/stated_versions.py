"""The places in which the repository states its version, and whether they agree. Pure: texts of files come in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

VERSION: Final = r"\d+\.\d+\.\d+"
_LABEL: Final = rf'app\.kubernetes\.io/version: "?({VERSION})'
# File → the texts that have the version; each must be there. `make generate` copies the labels into the chart's templates.
PLACES: Final[Mapping[str, tuple[str, ...]]] = {
    "gpushare/__init__.py": (rf'__version__ = "({VERSION})"',),
    "clusters/deploy/chart/Chart.yaml": (rf"(?m)^version: ({VERSION})$", rf'(?m)^appVersion: "({VERSION})"$'),
    "clusters/deploy/base/extender.yaml": (_LABEL, rf"image: \S+/extender:({VERSION})"),
    "clusters/deploy/base/device-plugin.yaml": (_LABEL, rf"image: \S+/device-plugin:({VERSION})"),
    "docs/install/index.md": (rf"--tag \S+/extender:({VERSION})", rf"--tag \S+/device-plugin:({VERSION})"),
    # The newest section that has a version.
    "CHANGELOG.md": (rf"\A(?:(?!\n## \[\d).)*\n## \[({VERSION})\] - \d{{4}}-\d\d-\d\d\n",),
}


def version_of(texts: Mapping[str, str]) -> str:
    """The version that the programs report; "" if their file has none."""
    found = re.search(PLACES["gpushare/__init__.py"][0], texts["gpushare/__init__.py"])
    return found[1] if found else ""


def disagreements(texts: Mapping[str, str], version: str) -> list[str]:
    """A line for each place that states another version, or none."""
    return [line for name in PLACES for line in _of_file(name, texts[name], version)]


def _of_file(name: str, text: str, version: str) -> Iterator[str]:
    for pattern in PLACES[name]:
        found = set(re.findall(pattern, text, re.DOTALL))
        if found != {version}:
            yield f"{name}: {' and '.join(sorted(found)) or 'no version'} in the place of {version} ({pattern})"
