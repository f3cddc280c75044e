"""Promises of clusters.kind.engine.network."""

from __future__ import annotations

import ipaddress
import os
from pathlib import Path

import pytest

from clusters.kind.engine import network
from clusters.kind.engine.network import choose_subnet
from clusters.provider import ClusterError

# Docker's answers about a network that a user made under our name.
DOCKER = """#!/bin/sh
echo "$@" >> "$CALLS"
case "$2" in
  ls) echo gpushare-kind ;;
  inspect) echo '[{"Options": {"com.docker.network.bridge.name": "br-users"}}]' ;;
esac
"""


def test_a_range_that_is_routed_is_passed_over() -> None:
    """A range is taken if it is routed in whole or in part; if all are, the error names the reason."""
    candidates = ["10.1.0.0/16", "10.2.0.0/16", "10.3.0.0/16", "172.28.0.0/16", "10.4.0.0/16"]
    routes = ["default", "10.1.0.0/16", "10.2.3.4", "10.3.128.0/17", "172.16.0.0/12"]

    assert choose_subnet(routes, candidates) == ipaddress.IPv4Network("10.4.0.0/16")
    with pytest.raises(ClusterError, match="routed elsewhere"):
        choose_subnet(["0.0.0.0/0"])


def test_a_network_on_another_bridge_is_neither_used_nor_removed(tmp_path: Path) -> None:
    """A network with our name on another bridge is another's: our rules would not see its packets."""
    program, calls = tmp_path / "docker", tmp_path / "calls"
    program.write_text(DOCKER)
    program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "CALLS": str(calls)}

    with pytest.raises(ClusterError, match="docker network rm gpushare-kind"):
        network.ensure(environment)
    assert network.remove(environment)
    assert "network rm" not in calls.read_text()
