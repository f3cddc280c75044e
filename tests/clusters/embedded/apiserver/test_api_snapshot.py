"""Promises of clusters.embedded.apiserver.api_snapshot: a cluster goes on with the state of an ended one."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from clusters.api.resources import CONFIG_MAPS
from clusters.embedded.apiserver import api_snapshot
from clusters.embedded.apiserver.api_snapshot import SnapshotError
from clusters.embedded.apiserver.refusals import RefusalError
from clusters.embedded.apiserver.server import EmbeddedApi

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
