"""Promises of clusters.embedded.controllers.quotas: the status of a quota follows the pods."""

from __future__ import annotations

from typing import Any

from clusters.embedded.controllers.actions import Patch
from clusters.embedded.controllers.quotas import counted


def a_quota(**status: Any) -> dict[str, Any]:
    """A quota of two pods."""
    return {"metadata": {"name": "q", "namespace": "a"}, "spec": {"hard": {"pods": "2"}}, "status": status}


def a_pod(namespace: str) -> dict[str, Any]:
    """A pod."""
    return {"metadata": {"name": "p", "namespace": namespace}, "spec": {"containers": []}}


def test_a_status_that_is_not_right_is_written() -> None:
    """The status counts the pods, and names that have left the limits are removed from it."""
    (action,) = counted([a_quota(hard={"pods": "1", "cpu": "1"}, used={})], [a_pod("a"), a_pod("b")])
    assert isinstance(action, Patch)
    assert action.patch == {"status": {"hard": {"cpu": None, "pods": "2"}, "used": {"pods": "1"}}}


def test_a_status_that_is_right_is_left_alone() -> None:
    """A status that is right is not written, because each write would cause another."""
    assert counted([a_quota(hard={"pods": "2"}, used={"pods": "0"})], []) == []
