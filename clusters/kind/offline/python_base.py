"""The base of our images without a registry: Python and its needs, from this machine's own Debian mirror, kept in the cache.

The release is the machine's own: its mirror and its keys are certain to have it, and libraries that its compiler built run
on it. A machine of a release with a Python older than 3.11 is refused.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TextIO

from clusters.kind.engine.docker_client import has_images
from clusters.kind.offline import debian
from clusters.kind.offline.oci_archive import architecture, write_layer
from clusters.processes.commands import BUILDING, run
from clusters.processes.progress import Progress
from clusters.provider import ClusterError

REPOSITORY: Final = "gpushare/python-base"
COMMAND: Final = "images"
_PATH: Final = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_OLDEST: Final = (3, 11)
# No program of ours reads these folders; a package's licence is in usr/share/doc/*/copyright.
_UNUSED: Final = (
    *("usr/share/man", "usr/share/locale", "usr/share/info", "usr/share/lintian", "usr/share/perl*"),
    *("usr/lib/*/gconv", "usr/lib/*/perl*", "var/lib/apt", "var/cache/apt", "var/log/*/"),
)


@dataclass(frozen=True, slots=True)
class Base:
    """An image that programs are laid upon."""

    name: str
    python: str
    """Its Python, as ``3.11``."""


def name_of() -> str:
    """The base of this machine. Raises ClusterError if it is no Debian."""
    recipe = [Path(name).read_text() for name in (__file__, debian.__file__)]
    content = "\0".join([debian.host_suite(), architecture(), *recipe])
    return f"{REPOSITORY}:{hashlib.sha256(content.encode()).hexdigest()[:12]}"


def ensure(cache: Path, environment: Mapping[str, str], out: TextIO) -> Base:
    """The base in Docker, made if it is not in the cache. Raises ClusterError."""
    name = name_of()
    folder = cache / name.replace("/", "-").replace(":", "-")
    if not folder.is_dir():
        _make(folder, environment, out)
    if not has_images([name], environment):
        changes = [f"--change=ENV {_PATH}", '--change=CMD ["python3"]', "--change=LABEL gpushare.stage=base"]
        run(["docker", "import", *changes, folder / "root.tar", name], environment)
    return Base(name, (folder / "python").read_text())


def _make(folder: Path, environment: Mapping[str, str], out: TextIO) -> None:
    with (
        tempfile.TemporaryDirectory(prefix=BUILDING, dir=folder.parent) as building,
        Progress(COMMAND, "making a base of Debian with Python", out, "once; a minute or two") as progress,
    ):
        root, made = Path(building) / "root", Path(building) / "made"
        made.mkdir()
        debian.debootstrap(root, ["python3"], environment, progress)
        progress.detail = "trimming"
        python = _python_of(root, environment)
        _compile(root, python, environment)
        for name in (found for pattern in _UNUSED for found in root.glob(pattern)):
            shutil.rmtree(name)
        run(["ldconfig", "-r", root], environment)
        progress.detail = "packing"
        write_layer(root, made / "root.tar", leave_out=debian.LEFT_OUT)
        (made / "python").write_text(python)
        made.rename(folder)
        progress.line(f"made it, with Python {python}, {(folder / 'root.tar').stat().st_size >> 20} MiB")


def _python_of(root: Path, environment: Mapping[str, str]) -> str:
    code = "import sys; print('.'.join(map(str, sys.version_info[:2])))"
    version = run(["chroot", root, "python3", "-c", code], environment).strip()
    if tuple(map(int, version.split("."))) < _OLDEST:
        raise ClusterError(
            f"this machine's Debian has Python {version}, and ours needs 3.11; name a base: --base IMAGE"
        )
    return version


def _compile(root: Path, python: str, environment: Mapping[str, str]) -> None:
    """Bytecode that does not look at the files' times, which the layer sets to zero."""
    mode = ["--invalidation-mode", "unchecked-hash"]
    run(["chroot", root, "python3", "-m", "compileall", "-q", "-f", *mode, f"/usr/lib/python{python}"], environment)
