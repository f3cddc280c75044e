"""The programs of a real control plane, for the tests that run them."""

from __future__ import annotations

import os

import pytest

from clusters.controlplane.binaries import Binaries, locate, minors
from clusters.provider import ClusterError


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
