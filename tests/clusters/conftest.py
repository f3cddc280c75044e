"""The API server that unit tests of clusters ask."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from clusters.api.api_client import ApiClient
from clusters.embedded.apiserver.server import EmbeddedApi
from tests.embedded_api import client_of


@pytest.fixture
async def api() -> AsyncIterator[ApiClient]:
    """A client of an embedded API server."""
    async with client_of(EmbeddedApi(seed=1)) as client:
        yield client
