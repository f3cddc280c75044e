"""The API server that unit tests of clusters ask, and the programs of a real control plane for the tests that run them."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

import pytest

from clusters.api.api_client import ApiClient
from clusters.controlplane.binaries import Binaries, locate, minors
from clusters.embedded.apiserver.server import EmbeddedApi
from clusters.provider import ClusterError
from tests.embedded_api import client_of


@pytest.fixture
async def api() -> AsyncIterator[ApiClient]:
    """A client of an embedded API server."""
    async with client_of(EmbeddedApi(seed=1)) as client:
        yield client


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
