"""Promises of clusters.embedded.apiserver.attributes: what a request wants, in the authorizer's words."""

from __future__ import annotations

import pytest

from clusters.embedded.apiserver.attributes import Attributes, attributes_of, is_on


@pytest.mark.parametrize(
    ("method", "path", "params", "wish"),
    [
        ("GET", "/api/v1/pods", {}, Attributes("list", resource="pods")),
        ("GET", "/api/v1/namespaces/a/pods", {"watch": "1"}, Attributes("watch", resource="pods", namespace="a")),
        ("GET", "/api/v1/namespaces/a/pods/p", {}, Attributes("get", resource="pods", namespace="a", name="p")),
        (
            "POST",
            "/api/v1/namespaces/a/pods/p/binding",
            {},
            Attributes("create", resource="pods", subresource="binding", namespace="a", name="p"),
        ),
        ("DELETE", "/api/v1/namespaces/a/pods", {}, Attributes("deletecollection", resource="pods", namespace="a")),
        ("GET", "/api/v1/namespaces/a", {}, Attributes("get", resource="namespaces", namespace="a", name="a")),
        (
            "PUT",
            "/api/v1/namespaces/a/finalize",
            {},
            Attributes("update", resource="namespaces", subresource="finalize", namespace="a", name="a"),
        ),
        ("PATCH", "/apis/apps/v1/x/y", {}, Attributes("patch", group="apps", resource="x", name="y")),
        (
            "GET",
            "/api/v1/pods",
            {"fieldSelector": "spec.nodeName=n,metadata.name==p"},
            Attributes("list", resource="pods", name="p"),
        ),
        ("GET", "/healthz", {}, Attributes("get", path="/healthz")),
        ("POST", "/apis/apps/v1", {}, Attributes("post", path="/apis/apps/v1")),
        ("GET", "/", {}, Attributes("get", path="/")),
    ],
    ids=str,
)
def test_a_request_is_a_wish(method: str, path: str, params: dict[str, str], wish: Attributes) -> None:
    """Verb, group, resource, namespace and name; or a path."""
    assert attributes_of(method, path, params) == wish
    assert wish.is_resource == (not wish.path)


@pytest.mark.parametrize(
    ("params", "on"), [({}, False), ({"w": ""}, True), ({"w": "no"}, True), ({"w": "False"}, False)]
)
def test_a_flag_is_on_unless_it_says_no(params: dict[str, str], on: bool) -> None:
    """A flag in the query is on unless its value is 0 or false, as on the real server."""
    assert is_on(params, "w") is on
