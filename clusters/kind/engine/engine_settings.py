"""The host's settings that a private dockerd changes: recorded before, put back afterwards."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from clusters.kind.engine import iptables

_FORWARDING: Final = "proc/sys/net/ipv4/ip_forward"
_INSTANCES: Final = "proc/sys/fs/inotify/max_user_instances"
# Each node's systemd, kubelet and containerd watch files; three nodes spend the kernel's default of 128.
_WANTED_INSTANCES: Final = 512
# Made by dockerd and containerd wherever their own folders are. The content of a folder comes first, so that the folder is empty
# when it is removed.
_MADE: Final = (
    "etc/docker/key.json",
    "etc/docker",
    "run/docker/plugins",
    "run/docker",
    "run/containerd/s",
    "run/containerd",
)


def prepare(file: Path, environment: Mapping[str, str], root: Path = Path("/")) -> None:
    """Record the settings unless that was done, and raise the limit of inotify instances. dockerd itself switches forwarding on."""
    if not file.exists():
        saved = iptables.save("iptables", "filter", environment)
        before = {
            "settings": {name: (root / name).read_text().strip() for name in (_FORWARDING, _INSTANCES)},
            "forward": iptables.policy("iptables", "FORWARD", environment),
            "absent": [name for name in _MADE if not (root / name).exists()],
            "docker": iptables.has_chain(saved, "DOCKER-USER"),
        }
        file.write_text(json.dumps(before))
    if int((root / _INSTANCES).read_text()) < _WANTED_INSTANCES:
        # Where the host's settings are not ours to change a few nodes still run.
        with contextlib.suppress(PermissionError, OSError):
            (root / _INSTANCES).write_text(str(_WANTED_INSTANCES))


def had_docker(file: Path) -> bool:
    """Were Docker's chains in the packet filter before? Then they are another program's, and stay."""
    return bool(_read(file).get("docker"))


def put_back(file: Path, environment: Mapping[str, str], root: Path = Path("/"), *, needed: bool = False) -> None:
    """Set the host's settings to their former values; a setting that a user changed in between to another value stays.

    ``needed``: another Docker has come, which needs them; then they stay as they are.
    """
    before = {} if needed else _read(file)
    settings = before.get("settings", {})
    ours = {_FORWARDING: "1", _INSTANCES: str(_WANTED_INSTANCES)}
    for name, value in settings.items():
        if (root / name).read_text().strip() == ours[name] != value:
            with contextlib.suppress(OSError):
                (root / name).write_text(value)
    if before.get("forward") == "ACCEPT" and iptables.policy("iptables", "FORWARD", environment) == "DROP":
        iptables.run("iptables", ["-P", "FORWARD", "ACCEPT"], environment)
    for name in before.get("absent", []):
        # A folder that is no longer empty belongs to another program.
        with contextlib.suppress(OSError):
            (root / name).rmdir() if (root / name).is_dir() else (root / name).unlink(missing_ok=True)
    file.unlink(missing_ok=True)


def _read(file: Path) -> dict[str, Any]:
    try:
        before: dict[str, Any] = json.loads(file.read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return before
