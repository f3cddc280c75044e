"""An embedded API server in the process of a test, and a client of it over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from clusters.api.api_client import ApiClient
from clusters.api.connection import Connection
from clusters.embedded.apiserver.server import EmbeddedApi


@asynccontextmanager
async def client_of(server: EmbeddedApi) -> AsyncIterator[ApiClient]:
    """Start the server; a client of it. It is stopped in the end."""
    try:
        async with ApiClient(Connection(await server.start())) as client:
            yield client
    finally:
        await server.stop()
