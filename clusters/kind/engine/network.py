"""Networks: a range of addresses that this host leaves free, bridges, and the Docker network of the nodes.

Routes and bridges are asked of `ip`, for /sys may show another network. The nodes' network is ours by name, so that rules can name
its bridge before the first node is there.
"""

from __future__ import annotations

import ipaddress
import json
import subprocess
from collections.abc import Iterable, Mapping
from typing import Final

from clusters.kind.engine.docker_client import NETWORK, NODES_BRIDGE, docker
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


def ensure(environment: Mapping[str, str]) -> None:
    """Create the network if it is not there. Raises ClusterError, also for one of that name on another bridge."""
    bridge = _bridge(environment)
    if bridge is None:
        docker(
            [
                *("network", "create", "--driver", "bridge"),
                *("--opt", f"com.docker.network.bridge.name={NODES_BRIDGE}"),
                # Packets that would leave the machine get no address to leave with.
                *("--opt", "com.docker.network.bridge.enable_ip_masquerade=false"),
                # Ports published without an address are for this machine alone.
                *("--opt", "com.docker.network.bridge.host_binding_ipv4=127.0.0.1"),
                NETWORK,
            ],
            environment,
        )
    elif bridge != NODES_BRIDGE:
        raise ClusterError(
            f"Docker's network {NETWORK} is not on the bridge {NODES_BRIDGE}, and nothing would keep its packets in: "
            f"`docker network rm {NETWORK}`"
        )


def remove(environment: Mapping[str, str]) -> bool:
    """Remove the network unless it is another's; False if containers are still on it, and it stays."""
    if _bridge(environment) != NODES_BRIDGE:
        return True
    try:
        docker(["network", "rm", NETWORK], environment)
    except ClusterError:
        return False
    return True


def _bridge(environment: Mapping[str, str]) -> str | None:
    """The bridge of the network, "" if Docker chose its name, None if there is no such network."""
    names = docker(["network", "ls", "--format", "{{.Name}}"], environment).splitlines()
    if NETWORK not in names:
        return None
    (found,) = json.loads(docker(["network", "inspect", NETWORK], environment))
    name: str = found["Options"].get("com.docker.network.bridge.name", "")
    return name
