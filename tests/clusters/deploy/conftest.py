"""The manifests as kubectl renders them."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

from clusters.deploy.render import render
from tests.clusters.deploy.reading import SITES, Object

_RENDERED: dict[str, list[Object]] = {}


@pytest.fixture(params=SITES, ids=list(SITES))
async def objects(request: pytest.FixtureRequest, kubectl: Path) -> list[Object]:
    """The objects of each site, rendered once."""
    if request.param not in _RENDERED:
        folder, components = SITES[request.param]
        _RENDERED[request.param] = await render(kubectl, folder, components=components)
    return copy.deepcopy(_RENDERED[request.param])
