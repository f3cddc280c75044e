"""An embedded API server and a client of it, over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from clusters.api.api_client import ApiClient
from clusters.embedded.apiserver.server import EmbeddedApi


@pytest.fixture
async def embedded() -> AsyncIterator[EmbeddedApi]:
    """A server that has not been started; it is stopped in the end."""
    server = EmbeddedApi(seed=1)
    yield server
    await server.stop()


@pytest.fixture
async def client(embedded: EmbeddedApi, tmp_path: Path) -> AsyncIterator[ApiClient]:
    """A client of the server, which this starts."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(embedded.kubeconfig(await embedded.start()))
    async with ApiClient.from_kubeconfig(kubeconfig) as connected:
        yield connected
