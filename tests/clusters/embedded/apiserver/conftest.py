"""An embedded API server and a client of it, over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from clusters.api.api_client import ApiClient
from clusters.embedded.apiserver.server import EmbeddedApi
from tests.embedded_api import client_of


@pytest.fixture
async def embedded() -> AsyncIterator[EmbeddedApi]:
    """A server that has not been started; it is stopped in the end."""
    server = EmbeddedApi(seed=1)
    yield server
    await server.stop()


@pytest.fixture
async def client(embedded: EmbeddedApi) -> AsyncIterator[ApiClient]:
    """A client of the server, which this starts."""
    async with client_of(embedded) as connected:
        yield connected
