from __future__ import annotations

from typing import Any

import pytest

from clusters.embedded.scheduling.host_ports import HostPort, conflict, host_ports
from tests.clusters.embedded.scheduling.scheduling_objects import make_pod


def container(name: str, *ports: dict[str, Any], **fields: str) -> dict[str, Any]:
    return {"name": name, "image": "none", "ports": list(ports), **fields}


def test_host_ports_are_those_of_containers_and_sidecars() -> None:
    """Not those of the container alone, nor of an init container that ends before the others start."""
    pod = make_pod(
        containers=[container("main", {"containerPort": 80, "hostPort": 8080}, {"containerPort": 81})],
        initContainers=[
            container("sidecar", {"containerPort": 1, "hostPort": 53, "protocol": "UDP"}, restartPolicy="Always"),
            container("init", {"containerPort": 2, "hostPort": 2}),
        ],
    )

    assert [("0.0.0.0", "TCP", 8080), ("0.0.0.0", "UDP", 53)] == host_ports(pod)


@pytest.mark.parametrize(
    ("used", "expected"),
    [
        (("0.0.0.0", "TCP", 80), True),
        (("127.0.0.1", "TCP", 80), True),
        (("10.0.0.1", "TCP", 80), False),
        (("127.0.0.1", "UDP", 80), False),
        (("127.0.0.1", "TCP", 81), False),
    ],
)
def test_conflict_needs_protocol_port_and_an_address_in_common(used: HostPort, expected: bool) -> None:
    """The address 0.0.0.0 has every other one in common."""
    assert expected is conflict([("127.0.0.1", "TCP", 80)], [used])
