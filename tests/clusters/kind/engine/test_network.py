"""Promises of clusters.kind.engine.network."""

from __future__ import annotations

import os
from pathlib import Path

from clusters.kind.engine import network

# Docker's answers about a network that a user made under our name.
DOCKER = """#!/bin/sh
echo "$@" >> "$CALLS"
case "$2" in
  ls) echo gpushare-kind ;;
  inspect) echo '[{"Options": {"com.docker.network.bridge.name": "br-users"}}]' ;;
esac
"""


def test_a_network_on_another_bridge_is_not_removed(tmp_path: Path) -> None:
    """A network with our name on another bridge stays: ``up`` refuses such a network, so it is another's."""
    program, calls = tmp_path / "docker", tmp_path / "calls"
    program.write_text(DOCKER)
    program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "CALLS": str(calls)}

    assert network.remove(environment)
    assert "network rm" not in calls.read_text()
