"""Promises of the embedded API server that no comparison with a real one shows: slow and late watches, and snapshots."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from clusters.api.connection import Connection
from clusters.api.resources import CONFIG_MAPS
from clusters.embedded.apiserver import api_snapshot
from clusters.embedded.apiserver.api_snapshot import SnapshotError
from clusters.embedded.apiserver.refusals import RefusalError
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


ITEM = {"metadata": {"name": "c"}}


def test_objects_come_back_and_history_does_not(tmp_path: Path) -> None:
    """Each object comes back at its version, the next write is newer, and an older watch must list again."""
    path = tmp_path / "state"
    path.write_text("older")
    first, second = EmbeddedApi(), EmbeddedApi()
    gone = first.writes.create(CONFIG_MAPS, "default", ITEM)
    first.store.remove(CONFIG_MAPS, gone.item)
    api_snapshot.save(first.store, path)
    second.load(path)

    assert [each.item for each in second.store.everything()] == [each.item for each in first.store.everything()]
    with pytest.raises(RefusalError, match="too old"):
        second.store.since(CONFIG_MAPS, gone.version)
    assert second.writes.create(CONFIG_MAPS, "default", ITEM).version == first.store.version + 1
    assert (list(tmp_path.iterdir()), path.stat().st_mode & 0o777) == ([path], 0o600)


GOOD = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "n", "resourceVersion": "2"}}


@pytest.mark.parametrize(
    "content",
    [
        b"{broken",
        msgspec.json.encode({"format": 2, "version": 9, "objects": []}),
        msgspec.json.encode({"format": 1, "version": 9, "objects": [{**GOOD, "kind": "Thing"}]}),
        msgspec.json.encode({"format": 1, "version": 9, "objects": [{**GOOD, "metadata": {"name": "c"}}]}),
        msgspec.json.encode({"format": 1, "version": 1, "objects": [GOOD]}),
    ],
    ids=["no JSON", "format", "kind", "no version", "newer than all"],
)
def test_a_broken_file_is_an_error_that_names_it(tmp_path: Path, content: bytes) -> None:
    """The error for a broken file names it, and the store stays as it was."""
    path = tmp_path / "state"
    path.write_bytes(content)
    server = EmbeddedApi()
    before = server.store.everything()
    with pytest.raises(SnapshotError, match=str(path)):
        server.load(path)
    assert server.store.everything() == before
