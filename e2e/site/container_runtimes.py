"""Reads the configuration of containerd, Docker and CRI-O below a root folder: which runtimes they know, and the default one."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

NVIDIA: Final = "nvidia-container-runtime"
# The usual packages have the first, k3s and RKE2 the others.
_CONTAINERD: Final = (
    "etc/containerd/config.toml",
    "var/lib/rancher/k3s/agent/etc/containerd/config.toml",
    "var/lib/rancher/rke2/agent/etc/containerd/config.toml",
)
_DOCKER: Final = "etc/docker/daemon.json"
_CRIO: Final = ("etc/crio/crio.conf", "etc/crio/crio.conf.d/*.conf")
# The plugin of containerd that has the runtimes, by the version of the file.
_PLUGINS: Final = {1: "cri", 2: "io.containerd.grpc.v1.cri", 3: "io.containerd.cri.v1.runtime"}


@dataclass(frozen=True)
class Configuration:
    """The settings of one program that runs containers; ``programs`` by the name of the runtime; ``error`` of reading it."""

    owner: str
    path: str
    default: str = ""
    programs: Mapping[str, str] = field(default_factory=dict)
    error: str = ""

    @property
    def of_nvidia(self) -> Mapping[str, str]:
        """The runtimes that are NVIDIA's, under whichever name."""
        return {name: program for name, program in self.programs.items() if NVIDIA in Path(program).name}


def configurations(root: Path) -> Iterator[Configuration]:
    """All that are below the folder."""
    for place in _CONTAINERD:
        if (root / place).exists():
            yield _read("containerd", root, place)
    if (root / _DOCKER).exists():
        yield _read("docker", root, _DOCKER)
    if (root / "etc/crio").exists():
        yield _read("crio", root, _CRIO[0])


def owner_for_kubelet(root: Path) -> str:
    """Which of them the kubelet's settings name: containerd, docker or crio; "" if they name none."""
    texts = [_text(root / "var/lib/kubelet" / name) for name in ("kubeadm-flags.env", "config.yaml")]
    lines = [line for text in texts for line in text.splitlines() if "endpoint" in line.lower()]
    words = {"containerd": "containerd", "dockerd": "docker", "crio.sock": "crio"}
    return next((owner for line in lines for word, owner in words.items() if word in line), "")


def _read(owner: str, root: Path, place: str) -> Configuration:
    readers = {"containerd": _containerd, "docker": _docker, "crio": _crio}
    try:
        default, programs = readers[owner](root, root / place)
    except (OSError, ValueError, AttributeError, TypeError) as error:
        return Configuration(owner, place, error=f"{type(error).__name__}: {error}")
    return Configuration(owner, place, default, programs)


def _containerd(root: Path, path: Path) -> tuple[str, dict[str, str]]:
    document = tomllib.loads(path.read_text())
    for pattern in document.get("imports") or ():
        for imported in sorted(root.glob(pattern.lstrip("/"))):
            document = _merged(document, tomllib.loads(imported.read_text()))
    plugin = (document.get("plugins") or {}).get(_PLUGINS.get(document.get("version", 1), _PLUGINS[3])) or {}
    section = plugin.get("containerd") or {}
    runtimes = section.get("runtimes") or {}
    programs = {name: str((one.get("options") or {}).get("BinaryName", "")) for name, one in runtimes.items()}
    return section.get("default_runtime_name", "runc"), programs


def _docker(_: Path, path: Path) -> tuple[str, dict[str, str]]:
    document = json.loads(path.read_text() or "{}")
    programs = {name: str(one.get("path", "")) for name, one in (document.get("runtimes") or {}).items()}
    return document.get("default-runtime", "runc"), programs


def _crio(root: Path, _: Path) -> tuple[str, dict[str, str]]:
    document: dict[str, Any] = {}
    for found in (one for pattern in _CRIO for one in sorted(root.glob(pattern))):
        document = _merged(document, tomllib.loads(found.read_text()))
    section = (document.get("crio") or {}).get("runtime") or {}
    programs = {name: str(one.get("runtime_path", "")) for name, one in (section.get("runtimes") or {}).items()}
    return section.get("default_runtime", "crun"), programs


def _merged(before: dict[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Both, and of what both have the later; tables are merged."""
    merged = dict(before)
    for key, value in after.items():
        old = merged.get(key)
        merged[key] = _merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        return ""
