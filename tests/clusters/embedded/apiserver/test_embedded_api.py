"""Promises of the embedded API server that no comparison with a real one shows: slow and late watches."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from clusters.api.connection import Connection
from clusters.api.resources import CONFIG_MAPS
from clusters.embedded.apiserver.server import EmbeddedApi

PATH = CONFIG_MAPS.path("default")


async def events_of(server: EmbeddedApi, count: int) -> list[dict[str, Any]]:
    """The events of a watch of a second, during which ``count`` objects are created together."""
    url = await server.start()
    params = {"watch": "1", "timeoutSeconds": "1", "resourceVersion": str(server.store.version)}
    try:
        async with Connection(url) as http, http.stream("GET", PATH, params=params) as response:
            for number in range(count):
                server.writes.create(CONFIG_MAPS, "default", {"metadata": {"name": f"c{number}"}})
                if number % 5 == 4:
                    await asyncio.sleep(0)
            return [json.loads(line) async for line in response.lines()]
    finally:
        await server.stop()


async def test_a_watch_that_cannot_keep_up_gets_an_error() -> None:
    """More changes together than are remembered are a 410 in the middle of a watch."""
    (event,) = await events_of(EmbeddedApi(history=3), 10)

    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)


async def test_late_events_come_in_order_and_none_is_lost() -> None:
    """A watch that is late shows each change, in the order of the versions."""
    events = await events_of(EmbeddedApi(watch_lag=0.01), 50)

    assert [event["object"]["metadata"]["name"] for event in events] == [f"c{number}" for number in range(50)]
