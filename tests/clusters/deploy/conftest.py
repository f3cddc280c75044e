"""The manifests as kubectl renders them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clusters.deploy.reading import SITES, Object, rendered


@pytest.fixture(params=SITES, ids=list(SITES))
async def objects(request: pytest.FixtureRequest, kubectl: Path) -> list[Object]:
    return await rendered(kubectl, request.param)
