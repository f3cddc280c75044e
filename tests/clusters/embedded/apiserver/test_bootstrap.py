"""Promises of clusters.embedded.apiserver.bootstrap: what every cluster begins with."""

from __future__ import annotations

from clusters.api.resources import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, PRIORITY_CLASSES, SERVICE_ACCOUNTS
from clusters.embedded.apiserver.bootstrap import bootstrap
from clusters.embedded.apiserver.server import EmbeddedApi


def test_every_bound_role_is_there() -> None:
    """Every role that a binding names exists, cluster-admin included."""
    store = EmbeddedApi().store
    roles = {each.item["metadata"]["name"] for each in store.all(CLUSTER_ROLES)}
    bound = {each.item["roleRef"]["name"] for each in store.all(CLUSTER_ROLE_BINDINGS)}
    assert bound <= roles
    assert "cluster-admin" in roles


def test_pods_can_come_at_once() -> None:
    """The default account and the priority classes exist at the start, so that pods can come at once."""
    store = EmbeddedApi().store
    assert store.get(SERVICE_ACCOUNTS, "default", "default") is not None
    assert store.get(PRIORITY_CLASSES, "", "system-node-critical") is not None


def test_a_second_bootstrap_writes_nothing() -> None:
    """A second bootstrap writes nothing, so objects that exist stay as they are."""
    server = EmbeddedApi()
    version = server.store.version
    bootstrap(server.store, server.writes)
    assert server.store.version == version
