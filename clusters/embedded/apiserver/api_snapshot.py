"""The state of an API server in one file: objects and versions, with which a new cluster goes on.

The history is not in it: a watch at an older version gets 410, as after a restart of the real one's etcd.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec

from clusters.api import kubeconfig_file
from clusters.api.resources import BY_KIND, Resource
from clusters.embedded.apiserver.api_objects import Object
from clusters.embedded.apiserver.store import Store

_FORMAT: Final = 1


class SnapshotError(Exception):
    """A snapshot that cannot be read or written; the text names the file and the fault."""


class _Snapshot(msgspec.Struct):
    format: int
    version: int
    """The newest version that was given out; the next write gets a higher one."""
    objects: list[dict[str, Any]]


def save(store: Store, path: Path) -> None:
    """Write all objects to the file; a reader sees the old one or the new one. Raises SnapshotError."""
    objects = [
        {**each.item, "kind": each.resource.kind, "apiVersion": each.resource.api_version}
        for each in store.everything()
    ]
    try:
        kubeconfig_file.put(path, msgspec.json.encode(_Snapshot(_FORMAT, store.version, objects)))
    except OSError as error:
        raise SnapshotError(f"{path}: the state of the cluster cannot be saved: {error}") from error


def load(store: Store, path: Path) -> None:
    """Put the objects of the file in the place of those in the store. Raises SnapshotError, and then nothing has changed."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=_Snapshot)
        if found.format != _FORMAT:
            raise ValueError(f"its format is {found.format}, this program reads {_FORMAT}")
        items = [(_resource_of(item), item, _version_of(item, found.version)) for item in found.objects]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SnapshotError(
            f"{path}: not the saved state of a cluster: {error} (move it away to start afresh)"
        ) from error
    store.restore(found.version, items)


def _resource_of(item: Object) -> Resource:
    key = (item["apiVersion"], item["kind"])
    if key not in BY_KIND:
        raise ValueError(f"kind {key[1]!r} of {key[0]!r} is not known")
    metadata = item["metadata"]
    if not isinstance(metadata["name"], str) or not isinstance(metadata.get("namespace", ""), str):
        raise TypeError("an object without a name")
    return BY_KIND[key]


def _version_of(item: Object, newest: int) -> int:
    version = int(item["metadata"]["resourceVersion"])
    if not 0 < version <= newest:
        raise ValueError(f"version {version} is beyond the newest, {newest}")
    return version
