"""Objects that go with others: dependents of a gone owner, and the content of a namespace that is being deleted. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from clusters.api.resources import Resource
from clusters.embedded.apiserver.deletion import FOREGROUND, ORPHAN
from clusters.embedded.controllers.actions import Action, Delete, Empty, Object, Patch

Listed = Sequence[tuple[Resource, Object]]


def orphans(items: Listed, uids: set[str], kinds: set[str]) -> list[Action]:
    """Objects without a living owner. Owners of kinds other than ``kinds`` are not known, and may exist."""
    return [
        Delete(resource, item, is_orphan=True)
        for resource, item in items
        if not item["metadata"].get("deletionTimestamp") and _is_orphan(item, uids, kinds)
    ]


def _is_orphan(item: Object, uids: set[str], kinds: set[str]) -> bool:
    owners = _owners(item)
    return bool(owners) and all(one.get("kind") in kinds and one["uid"] not in uids for one in owners)


def released(owners: Listed, items: Listed) -> list[Action]:
    """Owners that are being deleted and wait for their dependents: these go first (foreground), or are let go (orphan)."""
    actions: list[Action] = []
    for resource, owner in owners:
        waiting = [word for word in owner["metadata"].get("finalizers") or () if word in (FOREGROUND, ORPHAN)]
        if not owner["metadata"].get("deletionTimestamp") or not waiting:
            continue
        uid = owner["metadata"]["uid"]
        mine = [(kind, item) for kind, item in items if uid in [one["uid"] for one in _owners(item)]]
        if not mine:
            finalizers = {"$deleteFromPrimitiveList/finalizers": waiting}
            actions.append(Patch(resource, owner, {"metadata": finalizers}))
        for kind, item in mine:
            actions += _let_go(kind, item, owner) if ORPHAN in waiting else _deleted(kind, item)
    return actions


def emptied(namespaces: Sequence[Object]) -> list[Action]:
    """Namespaces that are being deleted."""
    return [Empty(namespace) for namespace in namespaces if namespace["metadata"].get("deletionTimestamp")]


def _owners(item: Object) -> Sequence[Object]:
    return item["metadata"].get("ownerReferences") or ()


def _let_go(resource: Resource, item: Object, owner: Object) -> list[Action]:
    reference = {"uid": owner["metadata"]["uid"], "$patch": "delete"}
    return [Patch(resource, item, {"metadata": {"uid": item["metadata"]["uid"], "ownerReferences": [reference]}})]


def _deleted(resource: Resource, item: Object) -> list[Action]:
    return [] if item["metadata"].get("deletionTimestamp") else [Delete(resource, item)]
