"""The part of the node's file system that is ours: programs, units, configuration, and what kind reads."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import yaml

from clusters.kind.offline.node_image.node_programs import NETWORK_PLUGINS, NODE_PROGRAMS

FILES: Final = Path(__file__).parent / "files"
UNITS: Final = Path(__file__).parent / "units.yaml"
_UNIT_FOLDER: Final = "etc/systemd/system"
# Filled in with the name of the image that kubeadm asks for.
_PAUSE: Final = "@PAUSE@"


def write_programs(tree: Path, programs: Mapping[str, Path]) -> None:
    """Programs of the node in /usr/local/bin, network plugins in containerd's folder for them."""
    for folder, names in (("usr/local/bin", NODE_PROGRAMS), ("opt/cni/bin", NETWORK_PLUGINS)):
        (tree / folder).mkdir(parents=True)
        for name in names:
            shutil.copyfile(programs[name], tree / folder / name)
            (tree / folder / name).chmod(0o755)


def write_settings(tree: Path, version: str, pause: str) -> None:
    """Files of ``files/``, which units start, and the release of Kubernetes for kind."""
    shutil.copytree(FILES, tree, dirs_exist_ok=True)
    for path in tree.rglob("*"):
        # As a checkout has them, except for the bits that differ between users.
        path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
    config = tree / "etc/containerd/config.toml"
    config.write_text(config.read_text().replace(_PAUSE, pause))
    (tree / "kind/version").write_text(f"{version}\n")
    # Empty: each node makes its own.
    (tree / "etc/machine-id").write_text("")
    # A worker's kubelet complains every few seconds while it is not there; the kubelet's packages make it, kubeadm join does not.
    (tree / "etc/kubernetes/manifests").mkdir(parents=True)
    _link_units(tree)


def _link_units(tree: Path) -> None:
    units: dict[str, list[str]] = yaml.safe_load(UNITS.read_text())
    folder = tree / _UNIT_FOLDER
    (folder / "default.target").symlink_to("/lib/systemd/system/multi-user.target")
    wants = folder / "multi-user.target.wants"
    wants.mkdir(parents=True)
    for unit in units["enabled"]:
        (wants / unit).symlink_to(f"/{_UNIT_FOLDER}/{unit}")
    for unit in units["masked"]:
        (folder / unit).symlink_to("/dev/null")
