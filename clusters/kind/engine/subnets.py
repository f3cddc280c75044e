"""A range of addresses that is free on this host."""

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
    """The destinations that this host has a route to. Raises ClusterError if `ip` cannot list them."""
    done = subprocess.run(["ip", "-4", "-json", "route"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ClusterError(f"`ip route` ended with {done.returncode}: {done.stderr.strip()}; install iproute2")
    return [route["dst"] for route in json.loads(done.stdout or "[]")]
