"""The files of a release: what wheels may be among them, and their checksums."""

from __future__ import annotations

import hashlib
import re
import shutil
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from email import message_from_bytes
from pathlib import Path
from typing import Final

from clusters.deploy.chart_templates import TEMPLATES
from clusters.deploy.chart_tools import locate_tool
from clusters.deploy.render import DEVICE_PLUGIN_IMAGE, EXTENDER_IMAGE
from clusters.processes.commands import run
from clusters.processes.scratch import scratch_folder
from clusters.provider import ClusterError

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


def notes_of(changelog: str, version: str) -> str:
    """The section of a version without its heading; "" if there is none, or nothing in it."""
    heading = re.search(rf"(?m)^## \[{re.escape(version)}\].*\n", changelog)
    if heading is None:
        return ""
    section = re.split(r"(?m)^## ", changelog[heading.end() :], maxsplit=1)[0].strip()
    # Headings alone are no notes.
    has_text = any(line and not line.startswith("#") for line in section.splitlines())
    return f"{section}\n" if has_text else ""


# `gpushare` on the Python package index is the package of a stranger.
DISTRIBUTIONS: Final = ("fake-nvml", "gpushare-scheduler", "pytest-gpushare")
CHECKSUMS: Final = "SHA256SUMS"


def judge_wheels(folder: Path, version: str) -> list[Path]:
    """The wheels of a folder, which are ours, all of them and in this version. Raises ClusterError."""
    wheels = sorted(folder.glob("*.whl"))
    found = sorted(_named(wheel) for wheel in wheels)
    wanted = [(name, version) for name in DISTRIBUTIONS]
    if found != wanted:
        raise ClusterError(f"{folder}: has the wheels {_listed(found)}, and should have {_listed(wanted)}")
    return wheels


def checksums(folder: Path) -> str:
    """The SHA-256 of each file of a folder, as `sha256sum --check` reads it."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.name != CHECKSUMS)
    return "".join(f"{digest_of(path)}  {path.name}\n" for path in files)


def digest_of(path: Path) -> str:
    """The SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _named(wheel: Path) -> tuple[str, str]:
    """Name and version, as its metadata has them."""
    with zipfile.ZipFile(wheel) as packed:
        (name,) = (one for one in packed.namelist() if one.endswith(".dist-info/METADATA") and one.count("/") == 1)
        metadata = message_from_bytes(packed.read(name))
    return metadata["Name"], metadata["Version"]


def _listed(named: Sequence[tuple[str, str]]) -> str:
    return ", ".join(" ".join(one) for one in named) or "none"


# As the registry and the manifests call them, without what stands before.
IMAGES: Final = {"extender": EXTENDER_IMAGE, "device-plugin": DEVICE_PLUGIN_IMAGE}
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")


def values_with(values: str, registry: str, digests: Mapping[str, str]) -> str:
    """The text of the chart's values with the images of a registry; ``digests`` by image, none for those known by their tag.

    Raises ClusterError for what is no digest, and if the text does not name an image exactly once.
    """
    for name, image in IMAGES.items():
        digest = digests.get(name, "")
        if digest and not _DIGEST.fullmatch(digest):
            raise ClusterError(f"{digest!r} is no digest of {name}")
        named = re.compile(rf'(repository: ){re.escape(image)}(\n(?:.*\n)*?\s+digest: )""')
        values, count = named.subn(rf'\g<1>{registry}/{name}\g<2>"{digest}"', values)
        if count != 1:
            raise ClusterError(f"the chart's values name {image} {count} times, and not once")
    return values


def package(registry: str, digests: Mapping[str, str], output: Path, environment: Mapping[str, str]) -> Path:
    """The packed chart, made by helm. Raises ClusterError."""
    with scratch_folder() as folder:
        chart = Path(shutil.copytree(TEMPLATES.parent, folder / "gpushare"))
        values = chart / "values.yaml"
        values.write_text(values_with(values.read_text(encoding="utf-8"), registry, digests), encoding="utf-8")
        run([locate_tool("helm", environment), "package", chart, "--destination", folder], environment)
        (packed,) = folder.glob("*.tgz")
        return Path(shutil.copy(packed, output))
