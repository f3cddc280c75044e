"""The parts of a kind cluster, found or built before its first node: Docker and kind, images and their archive, kubectl."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TextIO

from clusters.controlplane import binaries
from clusters.kind.engine import engine
from clusters.kind.kind_config import specification
from clusters.kind.offline.node_image import build as node_image
from clusters.kind.program_images import build as program_images
from clusters.processes.commands import BUILDING, locked, run
from clusters.provider import ClusterError
from clusters.simulated_node import environment_of_programs

# Archives of former images that are kept, beside the newest: another checkout may still use them.
_KEPT: Final = 2


@dataclass(frozen=True, slots=True)
class Equipment:
    """All of it."""

    environment: dict[str, str]
    """For programs that talk to Docker: where it is, and kind on PATH."""
    node_image: str
    container_specification: str
    """With what the nodes' containerd begins each container: as the node image has it, with the node's cards."""
    images: program_images.ProgramImages
    """The images of the programs under test, and of the player."""
    archive: Path
    """The archives of the images that pods of a kind cluster run, in a folder of such archives."""
    kubectl: Path


def find(
    minor: str, environment: Mapping[str, str], out: TextIO, *, node_image_name: str = "", image_base: str = ""
) -> Equipment:
    """Find it, and build the missing parts, with progress on ``out``: the node's image too if none is named.

    Raises ClusterError with what to do.
    """
    mine = environment_of_programs(environment)
    try:
        if engine.find(mine) is None:
            raise ClusterError(str(engine.reason_against(mine)))
        engine.up(mine, out)
        with_docker = engine.engine_environment(mine)
        node = node_image_name or node_image.ensure(minor, with_docker, out)
        images = program_images.ensure(with_docker, out, base=image_base or None)
        return Equipment(
            environment=with_docker,
            node_image=node,
            container_specification=specification(node, with_docker),
            images=images,
            archive=_archive(images, binaries.cache_folder(mine).parent / "kind" / "images", with_docker, out),
            kubectl=_kubectl(minor, mine),
        )
    except ClusterError as error:
        raise ClusterError(f"provider kind: {error}") from error


def _kubectl(minor: str, environment: Mapping[str, str]) -> Path:
    """The one of that minor that was built, else the one on PATH."""
    found = binaries.known(minor, environment).get("kubectl") or shutil.which("kubectl", path=environment.get("PATH"))
    if found is None:
        raise ClusterError(f"there is no kubectl; `make control-plane KUBERNETES={minor}` builds one")
    return Path(found)


def _archive(images: program_images.ProgramImages, folder: Path, environment: Mapping[str, str], out: TextIO) -> Path:
    """The archive in ``folder``, which every node reads, saved by Docker if it is not there yet.

    The plugin for real cards is not in it. Raises ClusterError for an image that is not there.
    """
    names = [images.extender, images.device_plugin_simulated, images.player]
    identities = run(["docker", "image", "inspect", "--format", "{{.Id}}", *names], environment)
    # With their names: a node knows an image by these.
    key = hashlib.sha256("\n".join([*names, identities]).encode()).hexdigest()[:16]
    path = folder / f"{key}.tar"
    with locked(folder, "kind", out):
        if not path.exists():
            # A reader sees the whole file or none. A folder of its own: Docker has unfinished files beside what it writes.
            with tempfile.TemporaryDirectory(prefix=BUILDING, dir=folder) as building:
                run(["docker", "save", "--output", f"{building}/{path.name}", *names], environment)
                Path(building, path.name).rename(path)
        os.utime(path)
        forget_old(folder, _KEPT)
    return path


def forget_old(folder: Path, kept: int) -> None:
    """Remove what was used longest ago; the newest and ``kept`` more stay."""
    by_age = sorted(folder.glob("*.tar"), key=_used_at, reverse=True)
    for path in by_age[kept + 1 :]:
        path.unlink(missing_ok=True)


def _used_at(path: Path) -> float:
    """When a file was written, in seconds since 1970; 0 if another process has removed it."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0
