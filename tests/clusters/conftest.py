"""The API server that unit tests of clusters ask, and the programs in Go that some run: of a real control plane, helm, krew."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from clusters.api.api_client import ApiClient
from clusters.api.connection import Connection
from clusters.controlplane.binaries import Binaries, locate, minors
from clusters.deploy.chart_tools import locate_tool
from clusters.embedded.apiserver.server import EmbeddedApi
from clusters.provider import ClusterError


@pytest.fixture
async def api() -> AsyncIterator[ApiClient]:
    """A client of an embedded API server."""
    server = EmbeddedApi(seed=1)
    try:
        async with ApiClient(Connection(await server.start())) as client:
            yield client
    finally:
        await server.stop()


@pytest.fixture(scope="session")
def binaries(request: pytest.FixtureRequest) -> Binaries:
    """Those of the newest minor; skipped if they are missing, unless they are required."""
    minor = request.config.getoption("--kubernetes", default=minors()[0])
    try:
        return locate(minor, dict(os.environ), request.config.getoption("--assets", default=None))
    except ClusterError as error:
        if request.config.getoption("--require-control-plane", default=False):
            raise
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def kubectl(binaries: Binaries) -> Path:
    """The one that is built with the control plane."""
    return binaries["kubectl"]


@pytest.fixture(scope="session")
def helm() -> Path:
    """The one that `python -m clusters.deploy.chart_tools` builds."""
    return _tool("helm")


@pytest.fixture(scope="session")
def kustomize() -> Path:
    """The one that `python -m clusters.deploy.chart_tools` builds."""
    return _tool("kustomize")


@pytest.fixture(scope="session")
def actionlint() -> Path:
    """The one that `python -m clusters.deploy.chart_tools` builds."""
    return _tool("actionlint")


@pytest.fixture(scope="session")
def krew() -> Path:
    """The one that `python -m clusters.deploy.chart_tools` builds."""
    return _tool("krew")


def _tool(name: str) -> Path:
    try:
        return locate_tool(name, dict(os.environ))
    except ClusterError as error:
        pytest.skip(str(error))
