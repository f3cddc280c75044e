"""Objects that go with others: dependents of a gone owner, and the content of a namespace that is being deleted. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from clusters.api.resources import Resource
from clusters.embedded.controllers.actions import Action, Delete, Empty, Object

Listed = Sequence[tuple[Resource, Object]]


def orphans(items: Listed, uids: set[str], kinds: set[str]) -> list[Action]:
    """Objects without a living owner. Owners of kinds other than ``kinds`` are not known, and may exist."""
    return [
        Delete(resource, item, is_orphan=True)
        for resource, item in items
        if not item["metadata"].get("deletionTimestamp") and _is_orphan(item, uids, kinds)
    ]


def _is_orphan(item: Object, uids: set[str], kinds: set[str]) -> bool:
    owners = item["metadata"].get("ownerReferences") or ()
    return bool(owners) and all(one.get("kind") in kinds and one["uid"] not in uids for one in owners)


def emptied(namespaces: Sequence[Object]) -> list[Action]:
    """Namespaces that are being deleted."""
    return [Empty(namespace) for namespace in namespaces if namespace["metadata"].get("deletionTimestamp")]
