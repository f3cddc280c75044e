"""A Debian of this machine's own release, from the mirror that its apt uses; without an image registry, images begin with it.

The base of our programs' images is one with Python and its needs, kept in the cache. The release is the machine's own: its mirror
and its keys are certain to have it, and libraries that its compiler built run on it. One with a Python older than 3.11 is refused.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TextIO

from clusters.kind.engine.docker_client import has_images
from clusters.kind.offline.oci_archive import architecture, write_layer
from clusters.processes.commands import BUILDING, Progress, run, watch
from clusters.provider import ClusterError

_INSTEAD: Final = "or use published images (--node-image, --image-base)"
# The engine makes its own devices; the other folders are filled when a container runs.
LEFT_OUT: Final = ("dev", "proc", "sys", "run", "tmp")

REPOSITORY: Final = "gpushare/python-base"
COMMAND: Final = "images"
_PATH: Final = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_OLDEST: Final = (3, 11)
# No program of ours reads these folders; a package's licence is in usr/share/doc/*/copyright.
_UNUSED: Final = (
    *("usr/share/man", "usr/share/locale", "usr/share/info", "usr/share/lintian", "usr/share/perl*"),
    *("usr/lib/*/gconv", "usr/lib/*/perl*", "var/lib/apt", "var/cache/apt", "var/log/*/"),
)


def host_suite() -> str:
    """The release of Debian (or of a relative) that this machine is. Raises ClusterError."""
    try:
        return platform.freedesktop_os_release()["VERSION_CODENAME"]
    except (OSError, KeyError) as error:
        raise ClusterError(
            f"this machine names no release of Debian, and images are built on Debian; {_INSTEAD}"
        ) from error


def mirror(suite: str, environment: Mapping[str, str]) -> str:
    """The URL from which apt has packages of that release, component main. Raises ClusterError."""
    what = ["--format", "$(RELEASE) $(COMPONENT) $(REPO_URI)", "Created-By: Packages"]
    for line in run(["apt-get", "indextargets", *what], environment).splitlines():
        release, component, url = line.split(maxsplit=2)
        if (release, component) == (suite, "main"):
            return url
    raise ClusterError(f"no source of apt has main of {suite}: name one in /etc/apt, {_INSTEAD}")


def debootstrap(root: Path, packages: Sequence[str], environment: Mapping[str, str], progress: Progress) -> None:
    """Make a small Debian with these packages in a folder. Needs root. Raises ClusterError."""
    if os.geteuid() != 0:
        raise ClusterError(f"making a Debian needs root (chroot): run as root, {_INSTEAD}")
    if shutil.which("debootstrap", path=environment.get("PATH")) is None:
        progress.detail = "installing debootstrap by apt"
        quiet = {**environment, "DEBIAN_FRONTEND": "noninteractive"}
        run(["apt-get", "install", "--yes", "--no-install-recommends", "debootstrap"], quiet)
    suite = host_suite()
    # Mounts of its own, and processes of its own: both are gone with it, however it ends.
    own = ["unshare", "--mount", "--propagation=private", "--fork", "--pid", "--kill-child"]
    argv = ["debootstrap", "--variant=minbase", f"--include={','.join(packages)}", suite]
    watch([*own, *argv, root, mirror(suite, environment)], environment, progress)


@dataclass(frozen=True, slots=True)
class Base:
    """An image that programs are laid upon."""

    name: str
    python: str
    """Its Python, as ``3.11``."""


def base_name() -> str:
    """The base of this machine. Raises ClusterError if it is no Debian."""
    content = "\0".join([host_suite(), architecture(), Path(__file__).read_text()])
    return f"{REPOSITORY}:{hashlib.sha256(content.encode()).hexdigest()[:12]}"


def ensure_base(cache: Path, environment: Mapping[str, str], out: TextIO) -> Base:
    """The base in Docker, made if it is not in the cache. Raises ClusterError."""
    name = base_name()
    folder = cache / name.replace("/", "-").replace(":", "-")
    if not folder.is_dir():
        _make_base(folder, environment, out)
    if not has_images([name], environment):
        changes = [f"--change=ENV {_PATH}", '--change=CMD ["python3"]', "--change=LABEL gpushare.stage=base"]
        run(["docker", "import", *changes, folder / "root.tar", name], environment)
    return Base(name, (folder / "python").read_text())


def _make_base(folder: Path, environment: Mapping[str, str], out: TextIO) -> None:
    with (
        tempfile.TemporaryDirectory(prefix=BUILDING, dir=folder.parent) as building,
        Progress(COMMAND, "making a base of Debian with Python", out, "once; a minute or two") as progress,
    ):
        root, made = Path(building) / "root", Path(building) / "made"
        made.mkdir()
        debootstrap(root, ["python3"], environment, progress)
        progress.detail = "trimming"
        python = _python_of(root, environment)
        _compile(root, python, environment)
        for name in (found for pattern in _UNUSED for found in root.glob(pattern)):
            shutil.rmtree(name)
        run(["ldconfig", "-r", root], environment)
        progress.detail = "packing"
        write_layer(root, made / "root.tar", leave_out=LEFT_OUT)
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
