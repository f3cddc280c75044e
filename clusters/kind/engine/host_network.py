"""The network of this host, through `ip` (/sys may show another one): a range of addresses that is free, and bridges."""

from __future__ import annotations

import ipaddress
import json
import subprocess
from collections.abc import Iterable
from typing import Final

from clusters.provider import ClusterError

# Private ranges (RFC 1918) that Docker's own choice, home routers and Kubernetes' defaults (10.96.0.0/16, 10.244.0.0/16)
# leave free.
_CANDIDATES: Final = (
    *(f"10.{second}.0.0/16" for second in range(201, 207)),
    *(f"172.{second}.0.0/16" for second in range(28, 32)),
    "192.168.192.0/20",
)


def choose_subnet(routes: Iterable[str], candidates: Iterable[str] = _CANDIDATES) -> ipaddress.IPv4Network:
    """The first candidate that no route overlaps (``10.0.0.0/8``, ``192.0.2.1``; ``default`` does not count).

    Raises ClusterError if all are taken.
    """
    taken = [ipaddress.IPv4Network(route) for route in routes if route != "default"]
    for candidate in map(ipaddress.IPv4Network, candidates):
        if not any(candidate.overlaps(one) for one in taken):
            return candidate
    raise ClusterError("every private range that containers could use is routed elsewhere on this host; remove a route")


def host_routes() -> list[str]:
    """The destinations that this host has a route to. Raises ClusterError."""
    return [route["dst"] for route in json.loads(_ip("-4", "-json", "route") or "[]")]


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


def _ip(*arguments: str) -> str:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ClusterError(f"`ip {' '.join(arguments)}` ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout
