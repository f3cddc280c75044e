"""Promises of clusters.embedded.controllers.garbage."""

from __future__ import annotations

from typing import Any

import pytest

from clusters.api.resources import PODS
from clusters.embedded.controllers.actions import Delete
from clusters.embedded.controllers.garbage import orphans

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
    """An orphan that is leaving is not deleted again, because its kubelet is ending it."""
    assert orphans([(PODS, item("p", ("ReplicaSet", "gone"), leaving=True))], set(), KINDS) == []
