"""Network devices of this host, through `ip`: what /sys shows may be another network's."""

from __future__ import annotations

import ipaddress
import subprocess

from clusters.provider import ClusterError


def ensure_bridge(name: str, address: ipaddress.IPv4Interface) -> None:
    """Make a bridge with this address if there is none. Raises ClusterError."""
    if not _exists(name):
        _ip("link", "add", name, "type", "bridge")
        _ip("addr", "add", str(address), "dev", name)
    _ip("link", "set", name, "up")


def remove_link(name: str) -> None:
    """Remove a device if there is one. Raises ClusterError."""
    if _exists(name):
        _ip("link", "del", name)


def _exists(name: str) -> bool:
    return subprocess.run(["ip", "link", "show", name], capture_output=True, check=False).returncode == 0


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ClusterError(f"`ip {' '.join(arguments)}` ended with {done.returncode}: {done.stderr.strip()}")
