"""Ports of the machine that pods take for themselves."""

from __future__ import annotations

from collections.abc import Iterable

from clusters.api_client import Object

# (address, protocol, port); the address that stands for all of them.
HostPort = tuple[str, str, int]
EVERYWHERE = "0.0.0.0"  # noqa: S104 - compared, never listened on


def host_ports(pod: Object) -> list[HostPort]:
    """The host ports of the pod's containers and sidecars."""
    spec = pod["spec"]
    sidecars = [each for each in spec.get("initContainers") or [] if each.get("restartPolicy") == "Always"]
    return [
        (port.get("hostIP") or EVERYWHERE, port.get("protocol") or "TCP", port["hostPort"])
        for container in [*(spec.get("containers") or []), *sidecars]
        for port in container.get("ports") or []
        if port.get("hostPort")
    ]


def conflict(wanted: Iterable[HostPort], used: Iterable[HostPort]) -> bool:
    """Whether one of the ports is taken: same protocol and port, and an address in common."""
    taken = list(used)
    return any(
        (protocol, port) == (other_protocol, other_port)
        and (address == other_address or EVERYWHERE in (address, other_address))
        for address, protocol, port in wanted
        for other_address, other_protocol, other_port in taken
    )
