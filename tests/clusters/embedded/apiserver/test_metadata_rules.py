"""Promises of clusters.embedded.apiserver.metadata_rules: each fault as often as the real server finds it."""

from __future__ import annotations

from typing import Any

import pytest

from clusters.embedded.apiserver import metadata_rules
from clusters.embedded.apiserver.field_rules import subdomain_texts
from clusters.resources import CONFIG_MAPS, DEPLOYMENTS, EVENTS, LEASES, Resource


def item(**metadata: Any) -> dict[str, Any]:
    """An object."""
    return {"metadata": {"name": "a", "uid": "u", **metadata}}


@pytest.mark.parametrize(("resource", "count"), [(EVENTS, 2), (LEASES, 3), (DEPLOYMENTS, 3), (CONFIG_MAPS, 4)])
def test_a_bad_label_of_a_change_is_named_by_each_check(resource: Resource, count: int) -> None:
    """Clients that count causes see the real number."""
    changed = item(labels={"a": "not a value"})
    assert len(metadata_rules.of_changed(resource, item(), changed, None, [], subdomain_texts)) == count


def test_what_only_the_server_writes_does_not_change() -> None:
    """Another uid, a deletion mark that no deletion made; a field that is left out stays."""
    theirs = item(uid="other", deletionTimestamp="2026-01-01T00:00:00Z")
    assert [error.field for error in metadata_rules.frozen(item(), theirs)] == [
        "metadata.uid",
        "metadata.deletionTimestamp",
    ]
    assert metadata_rules.frozen(item(), {"metadata": {"name": "a"}}) == []


def test_owners_named_twice_are_one() -> None:
    """And only one of them controls."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True}
    found = item(ownerReferences=[owner, dict(owner)])
    metadata_rules.without_twins(found["metadata"])
    assert found["metadata"]["ownerReferences"] == [owner]

    two = item(ownerReferences=[owner, {**owner, "name": "q", "uid": "v"}])
    (error,) = metadata_rules.of_new(CONFIG_MAPS, two, subdomain_texts)
    assert "Only one reference can have Controller set to true" in error.message
