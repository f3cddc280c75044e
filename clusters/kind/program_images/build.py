"""``python -m clusters.kind.program_images.build``: images of extender, device plugin and player, without an image registry.

The base is made of Debian packages, wheels and compiled programs lie ready, and no step of the build reaches the network. An
image that the engine has is not built again: its tag is its content. With a registry, ``--base IMAGE`` builds on one of it,
online. Prints the images' names last.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import json
import os
import platform
import re
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Final, TextIO

from clusters.controlplane.binaries import cache_folder
from clusters.kind.engine.docker_client import docker, has_images
from clusters.kind.engine.engine import engine_environment
from clusters.kind.offline import debian
from clusters.kind.offline.debian import COMMAND
from clusters.kind.program_images.build_context import READY, copy, sources
from clusters.kind.program_images.compiled_images import compile_all, player_content
from clusters.processes.commands import BUILDING, Progress, exit_code_of, locked, watch
from clusters.processes.scratch import scratch_folder
from clusters.provider import ClusterError

# Target of the Dockerfile → the image's name.
PROGRAMS: Final = {
    "extender": "gpushare/extender",
    "device-plugin": "gpushare/device-plugin",
    "device-plugin-simulated": "gpushare/device-plugin-simulated",
}
# Under the name that the original's demo pulls, so that its manifests run unchanged.
PLAYER: Final = "cheyang/gpu-player:v2"
_CONTENT_LABEL: Final = "gpushare.content"
CHECKOUT: Final = sources(Path(__file__).parents[3])
# They come along, and change nothing that runs; of pyproject.toml only what a wheel is made by counts.
_NOT_COUNTED: Final = ("README.md", "LICENSE", "pyproject.toml", ".dockerignore")
_WHEEL_TABLES: Final = ("project", "build-system")


@dataclass(frozen=True, slots=True)
class ProgramImages:
    """Names with tags, as Docker has them."""

    extender: str
    device_plugin: str
    device_plugin_simulated: str
    """With simulated cards in it."""
    player: str


def main(argv: Sequence[str] | None = None) -> int:
    """See ``commands.exit_code_of``; 2 for a call that makes no sense."""
    parser = argparse.ArgumentParser(
        prog="python -m clusters.kind.program_images.build",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--base", metavar="IMAGE", help="build on this image with Python 3.11 or newer, with network")
    arguments = parser.parse_args(argv)

    def build() -> None:
        images = ensure(engine_environment(dict(os.environ)), sys.stderr, base=arguments.base)
        print(*astuple(images), sep="\n")  # noqa: T201  # the answer

    return exit_code_of(COMMAND, build)


def ensure(environment: Mapping[str, str], out: TextIO, *, base: str | None = None) -> ProgramImages:
    """All images in the engine, built if they are not there.

    ``environment`` reaches the engine (``clusters.kind.engine.engine_environment``); ``base`` is an image of a registry, None:
    one that is made here. Raises ClusterError if this machine is no Debian.
    """
    cache = cache_folder(environment).parent / "program-images"
    with scratch_folder() as folder:
        images, tag = _names(folder, base)
        if not _all_there(images, environment):
            with locked(cache, COMMAND, out):
                # Another process may have built them while we waited.
                if not _all_there(images, environment):
                    _build(folder, images, tag, base, cache, environment, out)
    return images


def find(environment: Mapping[str, str]) -> ProgramImages | None:
    """The images of this checkout, if the engine has them all. Raises as ``ensure`` does."""
    with scratch_folder() as folder:
        images, _ = _names(folder, None)
    return images if _all_there(images, environment) else None


def _names(folder: Path, base: str | None) -> tuple[ProgramImages, str]:
    """Copy the checkout into a build context; what images of it are called, and their tag."""
    copy(CHECKOUT, folder)
    tag = digest(folder, base or debian.base_name())
    extender, device_plugin, simulated = (f"{name}:{tag}" for name in PROGRAMS.values())
    return ProgramImages(extender, device_plugin, simulated, PLAYER), tag


def digest(context: Path, *further: str) -> str:
    """All that decides what the programs' images hold, in 12 hexadecimal digits; ``further`` is what is not in the context."""
    tables = tomllib.loads((context / "pyproject.toml").read_text())
    content = hashlib.sha256(json.dumps({name: tables[name] for name in _WHEEL_TABLES}, sort_keys=True).encode())
    for part in further:
        content.update(part.encode() + b"\0")
    for path in sorted(context.rglob("*")):
        if path.is_file() and path.relative_to(context).as_posix() not in _NOT_COUNTED:
            content.update(path.relative_to(context).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return content.hexdigest()[:12]


def _all_there(images: ProgramImages, environment: Mapping[str, str]) -> bool:
    """Are all in Docker, and is the player, whose tag is fixed, made of the same sources?"""
    content = ["image", "inspect", "--format", f'{{{{index .Config.Labels "{_CONTENT_LABEL}"}}}}', images.player]
    return has_images(astuple(images), environment) and docker(content, environment).strip() == player_content()


def _build(
    folder: Path,
    images: ProgramImages,
    tag: str,
    base: str | None,
    cache: Path,
    environment: Mapping[str, str],
    out: TextIO,
) -> None:
    _remove_old(environment)
    name, network = base or "", "default"
    if base is None:
        made = debian.ensure_base(cache, environment, out)
        name, network = made.name, "none"
        _lay_ready(folder, fetch_wheels(folder, made.python, cache, environment, out), environment, out)
    version = _version(folder)
    with Progress(COMMAND, f"building images {tag}", out, "under a minute") as progress:
        for target, image in zip((*PROGRAMS, "player"), astuple(images), strict=True):
            progress.text = f"building {image}"
            content = player_content() if target == "player" else tag
            labels = [f"--label={_CONTENT_LABEL}={content}"]
            settings = [f"--build-arg=BASE={name}", f"--build-arg=VERSION={version}", f"--network={network}"]
            argv = ["docker", "build", "--target", target, "--tag", image, *labels, *settings, str(folder)]
            watch(argv, {**environment, **_builder(environment)}, progress)
        progress.line(f"built {', '.join(astuple(images))}")


def _remove_old(environment: Mapping[str, str]) -> None:
    """Images of former contents, and what building them left, after a day: another checkout may still use them."""
    for label in (_CONTENT_LABEL, "gpushare.stage"):
        docker(["image", "prune", "--all", "--force", f"--filter=label={label}", "--filter=until=24h"], environment)


def _lay_ready(folder: Path, found: Path, environment: Mapping[str, str], out: TextIO) -> None:
    """Put what the build must not fetch into its context."""
    with Progress(COMMAND, "compiling the player, simulated libraries and the wheel", out, "seconds") as progress:
        shutil.copytree(found, folder / READY / "wheels", dirs_exist_ok=True)
        programs = folder / READY / "programs"
        compile_all(programs, environment)
        build_own(folder, programs, environment, progress)


def _builder(environment: Mapping[str, str]) -> dict[str, str]:
    """Docker's own BuildKit, which sees the images that are here, if its command has it; else the builder before that."""
    try:
        docker(["buildx", "version"], environment)
    except ClusterError:
        return {"DOCKER_BUILDKIT": "0"}
    return {"BUILDX_BUILDER": "default"}


def _version(folder: Path) -> str:
    match = re.search(r'__version__ = "([^"]+)"', (folder / "gpushare" / "__init__.py").read_text())
    return match[1] if match else "unknown"


# The newest C library that a wheel may ask for: that of Debian 12. Which one a base has is tried when its image is built.
_NEWEST_GLIBC_MINOR: Final = 36
_OLDEST_GLIBC_MINOR: Final = 5


def platforms(machine: str) -> list[str]:
    """The platforms with wheels that run on a glibc base, as wheels name them (PEP 600 and the three names before it)."""
    numbered = [f"manylinux_2_{minor}_{machine}" for minor in range(_NEWEST_GLIBC_MINOR, _OLDEST_GLIBC_MINOR - 1, -1)]
    return [*numbered, *(f"{name}_{machine}" for name in ("manylinux2014", "manylinux2010", "manylinux1"))]


def fetch_wheels(checkout: Path, python: str, cache: Path, environment: Mapping[str, str], out: TextIO) -> Path:
    """The folder of the dependencies' wheels, and pip's, for that Python. Raises ClusterError with pip's error."""
    # The product's dependencies, and pip among the tools that build; each file with its hash.
    wanted = [checkout / ".ci" / "constraints" / f"{name}.txt" for name in ("product", "build")]
    content = "\0".join([*(path.read_text() for path in wanted), python, platform.machine()])
    folder = cache / f"wheels-{hashlib.sha256(content.encode()).hexdigest()[:12]}"
    if folder.is_dir():
        return folder
    with (
        tempfile.TemporaryDirectory(prefix=BUILDING, dir=cache) as building,
        Progress(COMMAND, f"fetching wheels for Python {python}", out, "once") as progress,
    ):
        made = Path(building) / "made"
        abi = f"cp{python.replace('.', '')}"
        argv = [
            "--only-binary=:all:",
            "--implementation=cp",
            f"--python-version={python}",
            f"--abi={abi}",
            "--abi=abi3",
        ]
        argv += [f"--platform={name}" for name in platforms(platform.machine())]
        argv += ["--abi=none", "--require-hashes", *(f"--requirement={path}" for path in wanted)]
        _pip(["download", *argv, f"--dest={made}"], environment, progress)
        made.rename(folder)
        progress.line(f"fetched {len(list(folder.iterdir()))} wheels")
    return folder


def build_own(checkout: Path, folder: Path, environment: Mapping[str, str], progress: Progress) -> None:
    """The wheels of a checkout, into a folder; built by the backend that `make` installed. Raises ClusterError."""
    argv = ["wheel", "--no-deps", "--no-build-isolation", f"--wheel-dir={folder}"]
    _pip([*argv, str(checkout), str(checkout / "fake_nvml")], environment, progress)


def _pip(arguments: list[str], environment: Mapping[str, str], progress: Progress) -> None:
    try:
        importlib.metadata.version("pip")
    except importlib.metadata.PackageNotFoundError as error:
        raise ClusterError(
            f"{sys.executable} has no pip, which fetches wheels; run it from the checkout's .venv"
        ) from error
    watch([sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments], environment, progress)


if __name__ == "__main__":
    sys.exit(main())
