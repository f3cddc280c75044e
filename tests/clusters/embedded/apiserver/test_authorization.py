"""Promises of clusters.embedded.apiserver.authorization: roles and bindings decide."""

from __future__ import annotations

from typing import Any

import pytest

from clusters.api.resources import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES
from clusters.embedded.apiserver.authentication import User, account_user
from clusters.embedded.apiserver.authorization import Attributes, Authorizer, allows, attributes_of, forbidden, is_on
from tests.clusters.embedded.apiserver.samples import new_writes


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


ANN = User("ann", ("people",))
LIST = Attributes("list", resource="pods", namespace="default")
RULE = {"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]}


def bound(role: str, subject: dict[str, str], kind: str = "ClusterRole") -> dict[str, Any]:
    """A binding."""
    return {"metadata": {"name": "b"}, "roleRef": {"kind": kind, "name": role}, "subjects": [subject]}


@pytest.mark.parametrize(
    ("rule", "wish", "allowed"),
    [
        ({}, LIST, True),
        ({"verbs": ["*"]}, LIST, True),
        ({"verbs": ["get"]}, LIST, False),
        ({"apiGroups": ["apps"]}, LIST, False),
        ({"apiGroups": ["*"]}, LIST, True),
        ({"resources": ["*"]}, Attributes("list", resource="pods", subresource="log"), True),
        ({"resources": ["pods"]}, Attributes("list", resource="pods", subresource="log"), False),
        ({"resources": ["*/log"]}, Attributes("list", resource="pods", subresource="log"), True),
        ({"resources": ["pods/*"]}, Attributes("list", resource="pods", subresource="log"), False),
        ({"resourceNames": ["p"]}, LIST, False),
        ({"resourceNames": ["p"]}, Attributes("list", resource="pods", name="p"), True),
        ({"nonResourceURLs": ["/x/*"]}, Attributes("list", path="/x/y"), True),
        ({"nonResourceURLs": ["/x"]}, Attributes("list", path="/x/y"), False),
        ({"nonResourceURLs": ["*"]}, Attributes("list", path="/"), True),
    ],
    ids=str,
)
def test_a_rule_covers_a_wish(rule: dict[str, Any], wish: Attributes, allowed: bool) -> None:
    """Every part of it must."""
    assert allows({**RULE, **rule}, wish) is allowed


@pytest.mark.parametrize(
    ("subject", "user"),
    [
        ({"kind": "User", "name": "ann"}, ANN),
        ({"kind": "Group", "name": "people"}, ANN),
        ({"kind": "ServiceAccount", "name": "bot", "namespace": "ns"}, account_user("ns", "bot")),
    ],
    ids=str,
)
def test_a_binding_gives_a_role_to_a_subject(subject: dict[str, str], user: User) -> None:
    """Everywhere; without it nothing is allowed; a role that is not there gives no right; a write is seen immediately."""
    writes = new_writes()
    authorizer = Authorizer(writes.store)
    assert not authorizer.allows(user, LIST)
    writes.create(CLUSTER_ROLE_BINDINGS, "", bound("r", subject))
    assert not authorizer.allows(user, LIST)
    writes.create(CLUSTER_ROLES, "", {"metadata": {"name": "r"}, "rules": [RULE]})

    assert authorizer.allows(user, LIST)
    assert not authorizer.allows(User("bob"), LIST)


def test_a_namespaces_binding_ends_at_its_border() -> None:
    """Rights by a role of the namespace."""
    writes = new_writes()
    writes.create(ROLES, "default", {"metadata": {"name": "r"}, "rules": [RULE]})
    writes.create(ROLE_BINDINGS, "default", bound("r", {"kind": "User", "name": "ann"}, "Role"))
    authorizer = Authorizer(writes.store)

    assert authorizer.allows(ANN, LIST)
    assert not authorizer.allows(ANN, Attributes("list", resource="pods", namespace="kube-system"))
    assert not authorizer.allows(ANN, Attributes("list", resource="pods"))


def test_administrators_and_nodes_need_no_binding() -> None:
    """Administrators may all, nodes what their role names."""
    writes = new_writes()
    writes.create(CLUSTER_ROLES, "", {"metadata": {"name": "system:node"}, "rules": [RULE]})
    authorizer = Authorizer(writes.store)
    assert authorizer.allows(User("x", ("system:masters",)), Attributes("any", path="/"))
    assert authorizer.allows(User("system:node:n", ("system:nodes",)), LIST)
    assert not authorizer.allows(User("n", ("system:nodes",)), LIST)


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        (
            Attributes("list", resource="pods"),
            'pods is forbidden: User "ann" cannot list resource "pods" in API group "" at the cluster scope',
        ),
        (
            Attributes("get", group="apps", resource="deployments", subresource="scale", namespace="a", name="d"),
            'deployments.apps "d" is forbidden: User "ann" cannot get resource "deployments/scale" in API group "apps" in the '
            'namespace "a"',
        ),
        (Attributes("get", path="/x"), 'forbidden: User "ann" cannot get path "/x"'),
    ],
    ids=str,
)
def test_a_refusal_names_user_and_action(wish: Attributes, message: str) -> None:
    """In the words of the real server."""
    assert forbidden(ANN, wish).message == message
