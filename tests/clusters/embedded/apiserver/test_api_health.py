"""Promises of clusters.embedded.apiserver.api_health."""

from __future__ import annotations

import pytest

from clusters.embedded.apiserver.api_health import health


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/livez/ping", "/healthz/etcd"])
def test_all_is_well(path: str) -> None:
    """The whole, and its parts."""
    assert health(path, {}) == "ok"


def test_the_parts_can_be_listed() -> None:
    """As kubectl get --raw '/readyz?verbose' shows them."""
    assert (health("/readyz", {"verbose": ""}) or "").splitlines() == [
        "[+]ping ok",
        "[+]log ok",
        "[+]etcd ok",
        "readyz check passed",
    ]


@pytest.mark.parametrize("path", ["/", "/health", "/livez/things", "/livez/ping/more"])
def test_other_paths_are_no_checks(path: str) -> None:
    """Another server answers them."""
    assert health(path, {}) is None
