"""Promises of clusters.embedded.controllers.account_controller: what every namespace has."""

from __future__ import annotations

from typing import Any

from clusters.embedded.controllers.account_controller import furnished
from clusters.embedded.controllers.actions import Patch


def named(name: str, namespace: str = "", **more: Any) -> dict[str, Any]:
    """An object."""
    return {"metadata": {"name": name, "namespace": namespace}, **more}


def test_a_furnished_namespace_is_left_alone() -> None:
    """A namespace that has everything is left alone, and a namespace that is leaving gets nothing."""
    going = {"metadata": {"name": "b", "deletionTimestamp": "now"}}
    published = named("kube-root-ca.crt", "a", data={"ca.crt": "PEM"})
    assert furnished([named("a"), going], [named("default", "a")], [published], "PEM") == []


def test_a_certificate_that_was_changed_is_put_back() -> None:
    """A certificate that differs is put back, for example that of a former cluster with the same state."""
    changed = named("kube-root-ca.crt", "a", data={"ca.crt": "other"})
    (action,) = furnished([named("a")], [named("default", "a")], [changed], "PEM")
    assert isinstance(action, Patch)
    assert action.patch == {"data": {"ca.crt": "PEM"}}
