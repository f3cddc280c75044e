"""The base of our images without a registry: Python and its needs, from this machine's own Debian mirror, kept in the cache.

The release is the machine's own: its mirror and its keys are certain to have it, and libraries that its compiler built run
on it. A machine of a release with a Python older than 3.11 is refused.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TextIO

from clusters.kind.offline import trim
from clusters.kind.offline.node_image.commands import run, tied
from clusters.kind.offline.node_image.oci_archive import architecture, write_layer
from clusters.kind.offline.node_image.rootfs import host_mirror, host_suite
from clusters.processes.build_cache import BUILDING
from clusters.processes.progress import Progress
from clusters.provider import ClusterError

REPOSITORY: Final = "gpushare/python-base"
COMMAND: Final = "images"
_PATH: Final = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_OLDEST: Final = (3, 11)
_TAIL: Final = 10
_OS_RELEASE: Final = Path("/etc/os-release")


@dataclass(frozen=True, slots=True)
class Base:
    """An image that programs are laid upon."""

    name: str
    python: str
    """Its Python, as ``3.11``."""


def name_of() -> str:
    """The base of this machine. Raises ClusterError if it is no Debian."""
    parts = [host_suite(_OS_RELEASE), architecture(), Path(__file__).read_text(), Path(trim.__file__).read_text()]
    return f"{REPOSITORY}:{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:12]}"


def ensure(cache: Path, environment: Mapping[str, str], out: TextIO) -> Base:
    """The base in Docker, made if it is not in the cache. Raises ClusterError."""
    name = name_of()
    folder = cache / name.replace("/", "-").replace(":", "-")
    if not folder.is_dir():
        _make(folder, environment, out)
    if not _is_there(name, environment):
        changes = [f"--change=ENV {_PATH}", '--change=CMD ["python3"]', "--change=LABEL gpushare.stage=base"]
        run(["docker", "import", *changes, folder / "root.tar", name], environment)
    return Base(name, json.loads((folder / "facts.json").read_text())["python"])


def _is_there(name: str, environment: Mapping[str, str]) -> bool:
    argv = ["docker", "image", "inspect", name]
    return subprocess.run(argv, env=dict(environment), capture_output=True, check=False).returncode == 0


def _make(folder: Path, environment: Mapping[str, str], out: TextIO) -> None:
    if os.geteuid() != 0:
        raise ClusterError(
            "the base of the images is made of Debian packages, which needs root (chroot); or name one: --base IMAGE"
        )
    suite = host_suite(_OS_RELEASE)
    text = f"making a base of Debian {suite} with Python"
    with (
        tempfile.TemporaryDirectory(prefix=BUILDING, dir=folder.parent) as building,
        Progress(COMMAND, text, out, "once; a minute or two") as progress,
    ):
        root, made = Path(building) / "root", Path(building) / "made"
        made.mkdir()
        _install_debootstrap(environment, progress)
        _debootstrap(root, suite, environment, progress)
        progress.detail = "trimming"
        python = _python_of(root, environment)
        _compile(root, python, environment)
        trim.trim(root)
        run(["ldconfig", "-r", root], environment)
        progress.detail = "packing"
        # Devices are the engine's to make.
        write_layer(root, made / "root.tar", leave_out=("dev", "proc", "sys", "run", "tmp"))
        (made / "facts.json").write_text(json.dumps({"suite": suite, "python": python}))
        made.rename(folder)
        progress.line(
            f"made a base of Debian {suite} with Python {python}, {(folder / 'root.tar').stat().st_size >> 20} MiB"
        )


def _install_debootstrap(environment: Mapping[str, str], progress: Progress) -> None:
    if shutil.which("debootstrap", path=environment.get("PATH")) is None:
        progress.detail = "installing debootstrap by apt"
        quiet = {**environment, "DEBIAN_FRONTEND": "noninteractive"}
        run(["apt-get", "install", "--yes", "--no-install-recommends", "debootstrap"], quiet)


def _debootstrap(root: Path, suite: str, environment: Mapping[str, str], progress: Progress) -> None:
    source = host_mirror(suite)
    argv = ["debootstrap", "--variant=minbase", "--include=python3"]
    argv += [f"--keyring={source.signed_by}"] if source.signed_by else []
    # Mounts and processes of its own are gone with it, however it ends.
    own = ["unshare", "--mount", "--propagation=private", "--fork", "--pid", "--kill-child", *argv]
    watch([*own, suite, str(root), source.url], environment, progress)


def watch(argv: list[str], environment: Mapping[str, str], progress: Progress) -> None:
    """Run a program that takes long; its newest line is the progress. Raises ClusterError with the end of its output."""
    command, settings = tied(argv, environment)
    lines: list[str] = []
    with subprocess.Popen(
        command, env=settings, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        try:
            for line in process.stdout or ():
                lines.append(line.rstrip())
                progress.detail = line.removeprefix("I: ").strip()[:100]
        except BaseException:
            process.terminate()
            raise
    if process.returncode != 0:
        tail = "\n".join(lines[-_TAIL:])
        raise ClusterError(f"{' '.join(argv[:2])} … ended with {process.returncode}:\n{tail}")


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
    argv = [
        "python3",
        "-m",
        "compileall",
        "-q",
        "-f",
        "--invalidation-mode",
        "unchecked-hash",
        f"/usr/lib/python{python}",
    ]
    run(["chroot", root, *argv], environment)
