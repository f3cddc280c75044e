"""Promises of clusters.embedded.apiserver.api_routes."""

from __future__ import annotations

import pytest

from clusters.api.resources import ALL, DEPLOYMENTS, NAMESPACES, NODES, PODS
from clusters.embedded.apiserver.api_routes import BINDINGS, Route, route_of


@pytest.mark.parametrize(
    ("path", "route"),
    [
        ("/api/v1/pods", Route(PODS)),
        ("/api/v1/namespaces/a/pods", Route(PODS, "a")),
        ("/api/v1/namespaces/a/pods/p", Route(PODS, "a", "p")),
        ("/api/v1/namespaces/a/pods/p/binding", Route(PODS, "a", "p", "binding")),
        ("/api/v1/namespaces/a/bindings", Route(BINDINGS, "a")),
        ("/api/v1/nodes/n%2Fm/status", Route(NODES, None, "n/m", "status")),
        ("/api/v1/namespaces", Route(NAMESPACES)),
        ("/api/v1/namespaces/a", Route(NAMESPACES, None, "a")),
        ("/api/v1/namespaces/a/status", Route(NAMESPACES, None, "a", "status")),
        ("/api/v1/namespaces/a/finalize", Route(NAMESPACES, None, "a", "finalize")),
        ("/apis/apps/v1/namespaces/a/deployments/d/scale", Route(DEPLOYMENTS, "a", "d", "scale")),
    ],
)
def test_a_path_means_an_object(path: str, route: Route) -> None:
    """A path of one kind, in one namespace or none."""
    assert route == route_of(path)


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/api",
        "/api/v1",
        "/api/v2/pods",
        "/api/v1/persistentvolumes",
        "/apis/apps/v1",
        "/api/v1/pods/p",
        "/api/v1/namespaces/a/nodes",
        "/api/v1/namespaces/a/nodes/n",
        "/api/v1/namespaces/a/pods/p/proxy",
        "/api/v1/namespaces/a/pods/p/log/x",
        "/api/v1/namespaces//pods",
        "/api/v1/namespaces/a/pods//binding",
        "/api/v1/namespaces/a/configmaps/c/status",
    ],
)
def test_other_paths_mean_nothing(path: str) -> None:
    """Unknown paths have no route, so the server answers 404."""
    assert route_of(path) is None


def test_every_kinds_own_path_leads_to_it() -> None:
    """The server takes apart the paths that clients build."""
    for resource in ALL:
        namespace = "a" if resource.namespaced else None
        assert route_of(resource.path(namespace, "x")) == Route(resource, namespace, "x")
        assert route_of(resource.path()) == Route(resource)
