"""An observation ends with an error, not with a good verdict, if it cannot see the cluster."""

from __future__ import annotations

import asyncio

import pytest

from clusters.api.api_client import ApiClient
from clusters.api.connection import Connection
from clusters.embedded.apiserver.authentication import AUTHENTICATED, User
from clusters.embedded.apiserver.server import EmbeddedApi
from e2e.site import SiteError
from e2e.site.observe import Observation
from tests.embedded_api import client_of


async def test_a_server_that_goes_away_ends_the_observation() -> None:
    """If too few looks were answered, the run ends at its time with an error that names the server."""
    server = EmbeddedApi()
    reports: list[str] = []
    async with client_of(server) as api:

        def stop_after_the_first_look(line: str) -> None:
            reports.append(line)
            if len(reports) == 1:
                stopping.append(asyncio.create_task(server.stop()))

        stopping: list[asyncio.Task[None]] = []
        observation = Observation(api, 0.2, stop_after_the_first_look)
        with pytest.raises(SiteError, match="API server at http://.* stopped answering"):
            await observation.run(1, asyncio.Event())
        await asyncio.gather(*stopping)
    assert any("no look" in line for line in reports)


async def test_an_account_without_rights_ends_the_observation() -> None:
    """It sees nothing, and the error names the file of rights."""
    server = EmbeddedApi(tokens={"known": User("ann", (AUTHENTICATED,))})
    url = await server.start()
    try:
        async with ApiClient(Connection(url, headers={"Authorization": "Bearer known"})) as api:
            with pytest.raises(SiteError, match=r'"ann" cannot list.*observe-rbac\.yaml'):
                await Observation(api, 0.2, print).run(300, asyncio.Event())
    finally:
        await server.stop()
