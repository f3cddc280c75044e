"""A node with simulated cards for each driver, and clients for it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from fake_nvml.box import Box
from fake_nvml.state import State
from tests.fake_nvml.clients.nvml_client import Client, Node, NotInstallableError, install


@pytest.fixture(scope="session")
def installed() -> Callable[..., Client]:
    """Install a client, once; if that is impossible its tests are skipped with pip's error."""
    refused: dict[str, str] = {}

    def find(program: str, listed: str) -> Client:
        if listed not in refused:
            try:
                return install(program, listed)
            except NotInstallableError as error:
                refused[listed] = str(error)
        pytest.skip(f"{listed} cannot be installed here: {refused[listed]}")

    return find


@pytest.fixture(params=["418", "535"])
def node(tmp_path: Path, request: pytest.FixtureRequest) -> Node:
    """A node of the original's day, and one of today; this process is on its second card."""
    node = Node(tmp_path / "state", str(request.param), tmp_path, os.getpid())
    with State.create(node.state, Box.load("t4x2", seed="node-1", driver=node.driver)) as state:
        uuid = state.cards()[1].uuid
        state.add_process(uuid, node.pid, 1253, "trainer")
        state.set_value(uuid, "utilization", "40")
    return node
