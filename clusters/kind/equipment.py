"""The parts of a kind cluster, found or built before its first node: Docker and kind, images, kubectl."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from clusters.controlplane import binaries
from clusters.kind.engine import engine
from clusters.kind.offline.node_image import build as node_image
from clusters.kind.program_images import build as program_images
from clusters.kind.program_images import card_mount
from clusters.provider import ClusterError
from clusters.simulated_node import environment_of_programs


@dataclass(frozen=True, slots=True)
class Equipment:
    """All of it."""

    environment: dict[str, str]
    """For programs that talk to Docker: where it is, and kind on PATH."""
    node_image: str
    container_specification: str
    """With what the nodes' containerd begins each container: as the node image has it, with the node's cards."""
    images: program_images.ProgramImages
    """Of the programs under test, and of the player."""
    kubectl: Path
    cache: Path
    """Where the provider keeps archives and records."""

    def images_on_nodes(self) -> list[str]:
        """Those that pods of a kind cluster run; the plugin for real cards is not among them."""
        return [self.images.extender, self.images.device_plugin_simulated, self.images.player]


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
        return Equipment(
            environment=with_docker,
            node_image=node,
            container_specification=card_mount.specification(node, with_docker),
            images=program_images.ensure(with_docker, out, base=image_base or None),
            kubectl=_kubectl(minor, mine),
            cache=binaries.cache_folder(mine).parent / "kind",
        )
    except ClusterError as error:
        raise ClusterError(f"provider kind: {error}") from error


def _kubectl(minor: str, environment: Mapping[str, str]) -> Path:
    """The one of that minor that was built, else the one on PATH."""
    found = binaries.known(minor, environment).get("kubectl") or shutil.which("kubectl", path=environment.get("PATH"))
    if found is None:
        raise ClusterError(f"there is no kubectl; `make control-plane KUBERNETES={minor}` builds one")
    return Path(found)
