"""Promises of clusters.embedded.apiserver.api_snapshot: a cluster goes on with the state of an ended one."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from clusters.api.resources import CONFIG_MAPS, EVENTS_V1, PODS
from clusters.embedded.apiserver import api_snapshot
from clusters.embedded.apiserver.api_snapshot import SnapshotError
from clusters.embedded.apiserver.server import EmbeddedApi
from tests.clusters.embedded.apiserver.samples import config_map, new_writes, pod, refused


def test_objects_and_versions_come_back(tmp_path: Path) -> None:
    """All kinds, each at its version; the next write is newer than all that were ever given out."""
    path = tmp_path / "state"
    first = EmbeddedApi()
    first.writes.create(PODS, "default", pod())
    gone = first.writes.create(CONFIG_MAPS, "default", config_map())
    first.store.remove(CONFIG_MAPS, gone.item)
    api_snapshot.save(first.store, path)
    second = EmbeddedApi()
    second.load(path)

    assert [each.item for each in second.store.everything()] == [each.item for each in first.store.everything()]
    assert second.store.version == first.store.version
    assert second.writes.create(CONFIG_MAPS, "default", config_map()).version == first.store.version + 1
    assert second.store.all(EVENTS_V1) == []


def test_history_does_not_come_back(tmp_path: Path) -> None:
    """A client that resumes a watch at an older version must list again."""
    path = tmp_path / "state"
    first = new_writes()
    api_snapshot.save(first.store, path)
    api_snapshot.load(first.store, path)
    refused(410, lambda: first.store.since(PODS, 1))
    assert first.store.since(PODS, first.store.version) == []


def test_a_save_replaces_the_file_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    """The saved file can be read by its owner only, and no other file is left beside it."""
    path = tmp_path / "state"
    path.write_text("older")
    api_snapshot.save(new_writes().store, path)
    assert list(tmp_path.iterdir()) == [path]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_save_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    """Where there is no such folder, say."""
    with pytest.raises(SnapshotError, match="cannot be saved"):
        api_snapshot.save(new_writes().store, tmp_path / "nowhere" / "state")


GOOD = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "n", "resourceVersion": "2"}}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{broken",
        b"[]",
        b'{"format":1,"version":1}',
        msgspec.json.encode({"format": 2, "version": 9, "objects": []}),
        msgspec.json.encode({"format": 1, "version": 9, "objects": [{**GOOD, "kind": "Thing"}]}),
        msgspec.json.encode({"format": 1, "version": 9, "objects": [{**GOOD, "metadata": {"name": "c"}}]}),
        msgspec.json.encode({"format": 1, "version": 9, "objects": [{**GOOD, "metadata": 7}]}),
        msgspec.json.encode({"format": 1, "version": 1, "objects": [GOOD]}),
    ],
    ids=range(9),
)
def test_a_broken_file_is_an_error_that_names_it(tmp_path: Path, content: bytes) -> None:
    """The error for a broken file names it, and the store and the file stay as they were."""
    path = tmp_path / "state"
    path.write_bytes(content)
    writes = new_writes()
    before = writes.store.everything()
    with pytest.raises(SnapshotError, match=str(path)):
        api_snapshot.load(writes.store, path)
    assert writes.store.everything() == before
    assert path.read_bytes() == content


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    """A caller that wants to begin afresh asks first whether it is there."""
    with pytest.raises(SnapshotError, match="No such file"):
        api_snapshot.load(new_writes().store, tmp_path / "state")
