"""Promises of clusters.embedded.apiserver.resource_rules: which amounts of which resources make sense."""

from __future__ import annotations

from typing import Any

import pytest

from clusters.embedded.apiserver.resource_rules import amounts, extended, of_container

MEMORY = "aliyun.com/gpu-mem"


@pytest.mark.parametrize(
    ("resources", "fields"),
    [
        ({"limits": {MEMORY: "2"}, "requests": {MEMORY: "2"}}, []),
        ({"requests": {MEMORY: "2"}}, ["r.limits"]),
        ({"limits": {MEMORY: "2"}, "requests": {MEMORY: "1"}}, ["r.requests"]),
        ({"limits": {MEMORY: "500m"}}, ["r.limits[aliyun.com/gpu-mem]"]),
        ({"limits": {"gpu": "1"}}, ["r.limits[gpu]"] * 2),
        ({"limits": {"requests.example.com/x": "1"}}, ["r.limits[requests.example.com/x]"]),
        ({"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}, ["r.requests"]),
        ({"limits": {"hugepages-2Mi": "3Mi"}}, ["r.limits[hugepages-2Mi]", "r"]),
    ],
)
def test_limits_and_requests_are_checked(resources: Any, fields: list[str]) -> None:
    """Every fault with its field."""
    assert [error.field for error in of_container(resources, "r")] == fields


def test_a_node_may_announce_anything() -> None:
    """But whole numbers of what a vendor counts."""
    assert amounts({"any thing": "1", "gpu": "0.5"}, "status.capacity") == []
    assert [error.field for error in amounts({MEMORY: "0.5"}, "c")] == [f"c.{MEMORY}"]


def test_what_belongs_to_a_vendor() -> None:
    """A name with a domain that is not Kubernetes' own."""
    assert [extended(name) for name in (MEMORY, "cpu", "kubernetes.io/x", "requests.a.b/x")] == [
        True,
        False,
        False,
        False,
    ]
