"""Promises of clusters.kind.engine.network."""

from __future__ import annotations

import ipaddress
import os
import shutil
from pathlib import Path

import pytest

from clusters.kind.engine import network
from clusters.kind.engine.network import choose_subnet, host_routes
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
    """In whole or in part, by a wider route or a single address."""
    candidates = ["10.1.0.0/16", "10.2.0.0/16", "10.3.0.0/16", "10.4.0.0/16"]
    routes = ["default", "10.1.0.0/16", "10.2.3.4", "10.3.128.0/17"]

    assert choose_subnet(routes, candidates) == ipaddress.IPv4Network("10.4.0.0/16")


def test_a_wide_route_takes_all_within() -> None:
    """A company that routes 10.0.0.0/8 keeps it."""
    assert not choose_subnet(["10.0.0.0/8"]).overlaps(ipaddress.IPv4Network("10.0.0.0/8"))


def test_the_ranges_of_kubernetes_are_never_chosen() -> None:
    """Services and pods have theirs inside the nodes."""
    chosen = choose_subnet([])

    assert not any(chosen.overlaps(ipaddress.IPv4Network(one)) for one in ("10.96.0.0/16", "10.244.0.0/16"))


def test_no_free_range_is_an_error() -> None:
    """The error names the reason."""
    with pytest.raises(ClusterError, match="routed elsewhere"):
        choose_subnet(["0.0.0.0/0"])


@pytest.mark.skipif(shutil.which("ip") is None, reason="no `ip` on PATH (iproute2)")
def test_the_routes_of_this_host_are_networks() -> None:
    """The routes of this host are networks that choose_subnet can use."""
    assert choose_subnet(host_routes()).is_private


def test_a_network_on_another_bridge_is_not_removed(tmp_path: Path) -> None:
    """A network with our name on another bridge stays: ``up`` refuses such a network, so it is another's."""
    program, calls = tmp_path / "docker", tmp_path / "calls"
    program.write_text(DOCKER)
    program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "CALLS": str(calls)}

    assert network.remove(environment)
    assert "network rm" not in calls.read_text()
