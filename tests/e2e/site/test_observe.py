"""An observation ends with an error, not with a good verdict, once it cannot see the cluster any more."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

import pytest
import yaml

from clusters.api.api_client import ApiClient
from clusters.api.connection import Connection
from clusters.api.resources import CLUSTER_ROLE_BINDINGS, resource_of
from clusters.embedded.apiserver.authentication import User
from clusters.embedded.apiserver.deletion import DeleteOptions
from clusters.embedded.apiserver.server import EmbeddedApi
from e2e.site import SiteError
from e2e.site.observe import Observation
from tests.embedded_api import client_of

_RIGHTS: Final = Path(__file__).parents[3] / "e2e" / "site" / "observe-rbac.yaml"


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


async def test_an_account_that_loses_its_rights_ends_the_observation() -> None:
    """An account that lost its rights ends the observation, because its watches are over and its state is old."""
    server = EmbeddedApi(tokens={"known": User("ann", ())})
    for manifest in yaml.safe_load_all(_RIGHTS.read_text()):
        if manifest["kind"] == "ClusterRoleBinding":
            manifest["subjects"] = [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "ann"}]
        server.writes.create(resource_of(manifest), manifest["metadata"].get("namespace"), manifest)
    url = await server.start()

    def revoke_at_the_first_look(line: str) -> None:
        server.writes.delete(CLUSTER_ROLE_BINDINGS, "", "gpushare-observe", DeleteOptions())
        server.close_watches()

    try:
        async with ApiClient(Connection(url, headers={"Authorization": "Bearer known"})) as api:
            with pytest.raises(SiteError, match="ann"):
                await Observation(api, 0.2, revoke_at_the_first_look).run(300, asyncio.Event())
    finally:
        await server.stop()
