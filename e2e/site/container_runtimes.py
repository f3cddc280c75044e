"""Reads the configuration of containerd, Docker and CRI-O below a root folder: which runtimes they know, and the default one."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

NVIDIA: Final = "nvidia-container-runtime"
# By program, the files of one configuration, of which the later ones count. For containerd the usual packages have the first,
# k3s and RKE2 the others.
_FILES: Final = (
    ("containerd", "etc/containerd/config.toml"),
    ("containerd", "var/lib/rancher/k3s/agent/etc/containerd/config.toml"),
    ("containerd", "var/lib/rancher/rke2/agent/etc/containerd/config.toml"),
    ("docker", "etc/docker/daemon.json"),
    ("crio", "etc/crio/crio.conf", "etc/crio/crio.conf.d/*.conf"),
)
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
    for owner, *patterns in _FILES:
        files = [file for pattern in patterns for file in sorted(root.glob(pattern))]
        if files:
            place = str(files[0].relative_to(root))
            try:
                yield Configuration(owner, place, *_runtimes(owner, _document(files), root))
            except (OSError, ValueError, AttributeError, TypeError) as error:
                yield Configuration(owner, place, error=f"{type(error).__name__}: {error}")


def owner_for_kubelet(root: Path) -> str:
    """Which of them the kubelet's settings name: containerd, docker or crio; "" if they name none."""
    texts = [_text(root / "var/lib/kubelet" / name) for name in ("kubeadm-flags.env", "config.yaml")]
    lines = [line for text in texts for line in text.splitlines() if "endpoint" in line.lower()]
    words = {"containerd": "containerd", "dockerd": "docker", "crio.sock": "crio"}
    return next((owner for line in lines for word, owner in words.items() if word in line), "")


def _document(files: Iterable[Path]) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for file in files:
        text = file.read_text()
        document = _merged(document, json.loads(text or "{}") if file.suffix == ".json" else tomllib.loads(text))
    return document


def _runtimes(owner: str, document: dict[str, Any], root: Path) -> tuple[str, dict[str, str]]:
    """The default runtime, and the program of each."""
    if owner == "docker":
        runtimes = document.get("runtimes") or {}
        return document.get("default-runtime", "runc"), {name: one.get("path", "") for name, one in runtimes.items()}
    if owner == "crio":
        section = (document.get("crio") or {}).get("runtime") or {}
        runtimes = section.get("runtimes") or {}
        programs = {name: one.get("runtime_path", "") for name, one in runtimes.items()}
        return section.get("default_runtime", "crun"), programs
    imported = [file for pattern in document.get("imports") or () for file in sorted(root.glob(pattern.lstrip("/")))]
    document = _merged(document, _document(imported))
    plugin = (document.get("plugins") or {}).get(_PLUGINS.get(document.get("version", 1), _PLUGINS[3])) or {}
    section = plugin.get("containerd") or {}
    runtimes = section.get("runtimes") or {}
    programs = {name: (one.get("options") or {}).get("BinaryName", "") for name, one in runtimes.items()}
    return section.get("default_runtime_name", "runc"), programs


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
