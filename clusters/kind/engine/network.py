"""The Docker network of the nodes: ours by name, so that rules can name its bridge before the first node is there."""

from __future__ import annotations

import json
from collections.abc import Mapping

from clusters.kind.engine.docker_client import docker
from clusters.kind.engine.place import NETWORK, NODES_BRIDGE
from clusters.provider import ClusterError


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
