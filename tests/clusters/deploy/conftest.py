"""kubectl, helm and kustomize, which render the manifests, and what kubectl makes of them."""

from __future__ import annotations

import copy
import os
from pathlib import Path

import pytest

from clusters.controlplane.binaries import Binaries
from clusters.deploy.chart_tools import locate_tool
from clusters.deploy.render import render
from clusters.provider import ClusterError
from tests.clusters.deploy.reading import SITES, Object

_RENDERED: dict[str, list[Object]] = {}


@pytest.fixture(scope="session")
def kubectl(binaries: Binaries) -> Path:
    """The one that is built with the control plane."""
    return binaries["kubectl"]


@pytest.fixture(scope="session")
def helm() -> Path:
    """The one that `make chart-tools` builds."""
    return _tool("helm")


@pytest.fixture(scope="session")
def kustomize() -> Path:
    """The one that `make chart-tools` builds."""
    return _tool("kustomize")


@pytest.fixture(scope="session")
def actionlint() -> Path:
    """The one that `make chart-tools` builds."""
    return _tool("actionlint")


def _tool(name: str) -> Path:
    try:
        return locate_tool(name, dict(os.environ))
    except ClusterError as error:
        pytest.skip(str(error))


@pytest.fixture(params=SITES, ids=list(SITES))
async def objects(request: pytest.FixtureRequest, kubectl: Path) -> list[Object]:
    """The objects of each site, rendered once."""
    if request.param not in _RENDERED:
        folder, components = SITES[request.param]
        _RENDERED[request.param] = await render(kubectl, folder, components=components)
    return copy.deepcopy(_RENDERED[request.param])
