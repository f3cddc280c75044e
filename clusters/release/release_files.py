"""The files of a release: archives of kubectl's plugins, what wheels may be among them, and their checksums.

An archive has, for each platform, small programs beside the packages that they need. A zipapp would not do: msgspec and aiohttp
have parts in C, and Python loads none from a zip file. The wheels of one platform for several releases of Python are laid over
each other: the names of their parts in C differ, and the rest is the same.
"""

from __future__ import annotations

import hashlib
import io
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from email import message_from_bytes
from pathlib import Path
from typing import Any, Final

import yaml

from clusters.deploy.chart_templates import TEMPLATES
from clusters.deploy.chart_tools import locate_tool
from clusters.deploy.render import DEVICE_PLUGIN_IMAGE, EXTENDER_IMAGE
from clusters.processes.commands import run
from clusters.processes.scratch import scratch_folder
from clusters.provider import ClusterError

# Krew links a plugin as `kubectl-` and its name with underscores, so `kubectl-inspect-gpushare` can be none.
_PREFIX: Final = "kubectl-"
_ABOUT: Final = {
    "inspect-gpushare": "Show which pods share which GPU",
    "gpushare": "Explain why pods wait for a part of a GPU",
}
PLATFORMS: Final = ("linux-amd64", "linux-arm64", "darwin-amd64", "darwin-arm64")


@dataclass(frozen=True, slots=True)
class Plugin:
    """One plugin: its name as krew knows it, and the function that it runs."""

    name: str
    entry: str
    """``module:function``."""

    @property
    def program(self) -> str:
        """The name of its file."""
        return _PREFIX + self.name.replace("-", "_")


def plugins_of(scripts: Mapping[str, str]) -> list[Plugin]:
    """Those of a project's console scripts that krew can install."""
    names = {script.removeprefix(_PREFIX): entry for script, entry in scripts.items() if script.startswith(_PREFIX)}
    return [Plugin(name.replace("_", "-"), entry) for name, entry in sorted(names.items()) if "-" not in name]


def manifest(plugin: Plugin, version: str, homepage: str, archives: Mapping[str, tuple[str, str]]) -> str:
    """The YAML text; ``archives`` has the address and the SHA-256 of each platform's archive."""
    document: dict[str, Any] = {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": plugin.name},
        "spec": {
            "version": f"v{version}",
            "homepage": homepage,
            "shortDescription": _ABOUT[plugin.name],
            "description": "For clusters whose pods book parts of a GPU's memory (aliyun.com/gpu-mem).\n",
            "caveats": "Needs Python 3.11, 3.12 or 3.13 as python3 on PATH.\n",
            "platforms": [_platform(plugin, name, *archives[name]) for name in PLATFORMS],
        },
    }
    return str(yaml.safe_dump(document, sort_keys=False))


def _platform(plugin: Plugin, name: str, address: str, digest: str) -> dict[str, Any]:
    system, machine = name.split("-")
    selector = {"matchLabels": {"os": system, "arch": machine}}
    return {"selector": selector, "uri": address, "sha256": digest, "bin": plugin.program}


PYTHONS: Final = ("3.11", "3.12", "3.13")
# The distributions that plugins import; the other dependencies are those of the extender and the device plugin.
NEEDED: Final = (
    "aiohappyeyeballs", "aiohttp", "aiosignal", "attrs", "frozenlist", "idna", "msgspec", "multidict",
    "prometheus-client", "propcache", "pyyaml", "typing-extensions", "yarl",
)  # fmt: skip
# As pip names platforms.
_TAGS: Final[Mapping[str, tuple[str, ...]]] = {
    "linux-amd64": ("manylinux2014_x86_64", "manylinux_2_28_x86_64"),
    "linux-arm64": ("manylinux2014_aarch64", "manylinux_2_28_aarch64"),
    "darwin-amd64": ("macosx_13_0_x86_64",),
    "darwin-arm64": ("macosx_13_0_arm64",),
}
_PROGRAM: Final = """#!/usr/bin/env python3
import os
import sys

if sys.version_info[:2] not in ({pythons}):
    sys.exit("error: {program} needs Python {first} to {last} as python3, and this is " + sys.version.split()[0])
sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "lib"))
from {module} import {function}  # noqa: E402

sys.exit({function}())
"""


def archive_name(version: str, platform: str) -> str:
    """The name of an archive."""
    return f"kubectl-gpushare-{version}-{platform}.tar.gz"


def program(plugin: Plugin) -> str:
    """The text of a plugin's program."""
    module, _, function = plugin.entry.partition(":")
    pythons = ", ".join(f"({release.replace('.', ', ')})" for release in PYTHONS)
    ends = {"first": PYTHONS[0], "last": PYTHONS[-1]}
    return _PROGRAM.format(pythons=pythons, program=plugin.program, module=module, function=function, **ends)


def archive(plugins: Sequence[Plugin], wheels: Sequence[Path], licence: bytes) -> bytes:
    """The archive of these plugins with the content of these wheels. Raises ClusterError for wheels that contradict each other."""
    files = {"LICENSE": licence, **{plugin.program: program(plugin).encode() for plugin in plugins}}
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as packed:
            # Some list their folders, too, which krew would take for files.
            for name in (one for one in packed.namelist() if not one.endswith("/")):
                content, place = packed.read(name), f"lib/{name}"
                # The notes about a wheel itself are those of its platform.
                if files.setdefault(place, content) != content and ".dist-info/" not in name:
                    raise ClusterError(f"{wheel.name}: {name} differs from that of another wheel")
    return _packed(files, {plugin.program for plugin in plugins})


def fetch(platform: str, requirements: str, folder: Path) -> list[Path]:
    """Download the wheels of the list that plugins need, for one platform, each with a hash of the list. Raises ClusterError."""
    listed = folder / "needed.txt"
    listed.write_text("".join(entry_of(name, requirements) for name in NEEDED), encoding="utf-8")
    quiet = ("--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:", f"--dest={folder}")
    for release in PYTHONS:
        tags = (f"--python-version={release}", *(f"--platform={tag}" for tag in _TAGS[platform]))
        argv = [sys.executable, "-m", "pip", "download", *quiet, *tags, "--require-hashes", f"--requirement={listed}"]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ClusterError(f"no wheels for {platform} and Python {release}: {done.stderr.strip()}")
    return sorted(folder.glob("*.whl"))


def entry_of(name: str, requirements: str) -> str:
    """One distribution of a list, with its hashes. Raises ClusterError if the list has none of that name."""
    match = re.search(rf"(?m)^{name}==.*\n(?:[ \t]+.*\n)*", requirements)
    if match is None:
        raise ClusterError(f"the list has no {name}")
    return match[0]


def make(plugins: Sequence[Plugin], own: Path, requirements: str, licence: bytes, platform: str) -> bytes:
    """The archive for one platform, from our own wheel and what the index has. Raises ClusterError."""
    with tempfile.TemporaryDirectory(prefix="gpushare-plugins-") as folder:
        return archive(plugins, [own, *fetch(platform, requirements, Path(folder))], licence)


def _packed(files: Mapping[str, bytes], programs: set[str]) -> bytes:
    """The same bytes for the same files, whoever packs them and when."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz", format=tarfile.PAX_FORMAT) as tar:
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o755 if name in programs else 0o644
            tar.addfile(entry, io.BytesIO(content))
    packed = bytearray(out.getvalue())
    # The time in the head of gzip.
    packed[4:8] = bytes(4)
    return bytes(packed)


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
