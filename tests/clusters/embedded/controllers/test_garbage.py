"""Promises of clusters.embedded.controllers.garbage."""

from __future__ import annotations

from typing import Any

import pytest

from clusters.embedded.controllers.actions import Delete, Empty, Patch
from clusters.embedded.controllers.garbage import emptied, orphans, released
from clusters.resources import PODS, REPLICA_SETS

KINDS = {"ReplicaSet", "Pod"}


def item(
    name: str, *owners: tuple[str, str], finalizers: tuple[str, ...] = (), leaving: bool = False
) -> dict[str, Any]:
    """An object with owners (kind, uid); its uid is its name."""
    references = [{"kind": kind, "uid": uid, "name": uid, "apiVersion": "v1"} for kind, uid in owners]
    metadata: dict[str, Any] = {
        "name": name,
        "uid": name,
        "ownerReferences": references,
        "finalizers": list(finalizers),
    }
    return {"metadata": metadata | ({"deletionTimestamp": "now"} if leaving else {})}


@pytest.mark.parametrize(
    ("owners", "goes"),
    [
        ([], False),
        ([("ReplicaSet", "there")], False),
        ([("ReplicaSet", "gone")], True),
        ([("ReplicaSet", "gone"), ("ReplicaSet", "there")], False),
        ([("Robot", "gone")], False),
    ],
    ids=["none", "there", "gone", "one of two", "unknown kind"],
)
def test_objects_all_of_whose_owners_are_gone_go(owners: list[tuple[str, str]], goes: bool) -> None:
    """An owner of a kind that is not followed may exist."""
    found = item("p", *owners)

    assert orphans([(PODS, found)], {"there"}, KINDS) == ([Delete(PODS, found, is_orphan=True)] if goes else [])


def test_what_is_leaving_is_not_sent_away_again() -> None:
    """Its kubelet is at it."""
    assert orphans([(PODS, item("p", ("ReplicaSet", "gone"), leaving=True))], set(), KINDS) == []


def test_a_foreground_owner_waits_for_its_dependents() -> None:
    """They go first, then its finalizer does."""
    owner = item("rs", finalizers=("foregroundDeletion", "x/y"), leaving=True)
    mine, leaving = item("a", ("ReplicaSet", "rs")), item("b", ("ReplicaSet", "rs"), leaving=True)
    owners = [(REPLICA_SETS, owner)]

    assert released(owners, [(PODS, mine), (PODS, leaving), (PODS, item("c"))]) == [Delete(PODS, mine)]
    (patch,) = released(owners, [(PODS, item("c"))])
    assert isinstance(patch, Patch)
    assert patch.patch == {"metadata": {"$deleteFromPrimitiveList/finalizers": ["foregroundDeletion"]}}


def test_an_orphaning_owner_lets_its_dependents_go() -> None:
    """They lose the reference and stay."""
    owner = item("rs", finalizers=("orphan",), leaving=True)
    (patch,) = released([(REPLICA_SETS, owner)], [(PODS, item("a", ("ReplicaSet", "rs")))])

    assert isinstance(patch, Patch)
    assert patch.patch["metadata"]["ownerReferences"] == [{"uid": "rs", "$patch": "delete"}]


def test_only_namespaces_that_are_being_deleted_are_emptied() -> None:
    """Nothing else is."""
    leaving = item("x", leaving=True)

    assert emptied([item("default"), leaving]) == [Empty(leaving)]
