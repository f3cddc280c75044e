"""Promises of clusters.embedded.apiserver.access_reviews: questions about access, answered to an administrator."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from clusters.embedded.apiserver.server import EmbeddedApi
from tests.servers import plain_http

AUTHORIZATION = "/apis/authorization.k8s.io/v1"
AUTHENTICATION = "/apis/authentication.k8s.io/v1"
PODS = {"resourceAttributes": {"verb": "list", "resource": "pods", "namespace": "default"}}


@pytest.fixture
async def http(embedded: EmbeddedApi) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of a server that takes it for an administrator."""
    async with plain_http(await embedded.start()) as connected:
        yield connected


@pytest.mark.parametrize(
    ("kind", "spec", "allowed"),
    [
        ("selfsubjectaccessreviews", PODS, True),
        ("subjectaccessreviews", {**PODS, "user": "bob"}, False),
        ("subjectaccessreviews", {**PODS, "groups": ["system:masters"]}, True),
        (
            "subjectaccessreviews",
            {"nonResourceAttributes": {"path": "/healthz", "verb": "get"}, "groups": ["system:unauthenticated"]},
            True,
        ),
        ("namespaces/default/localsubjectaccessreviews", {**PODS, "user": "bob"}, False),
    ],
    ids=str,
)
async def test_rights_of_a_user(http: httpx2.AsyncClient, kind: str, spec: dict[str, Any], allowed: bool) -> None:
    """The user's own rights, or another's."""
    answer = await http.post(f"{AUTHORIZATION}/{kind}", json={"spec": spec})
    assert answer.status_code == 201
    assert answer.json()["status"]["allowed"] is allowed


@pytest.mark.parametrize(
    ("code", "kind", "spec"),
    [
        (422, "selfsubjectaccessreviews", {}),
        (422, "selfsubjectaccessreviews", {**PODS, "nonResourceAttributes": {"path": "/"}}),
        (422, "subjectaccessreviews", PODS),
        (400, "selfsubjectrulesreviews", {}),
        (400, "selfsubjectaccessreviews", "text"),
    ],
    ids=str,
)
async def test_a_question_that_makes_no_sense_is_refused(
    http: httpx2.AsyncClient, code: int, kind: str, spec: Any
) -> None:
    """With a Status."""
    answer = await http.post(f"{AUTHORIZATION}/{kind}", json={"spec": spec})
    assert (answer.status_code, answer.json()["kind"]) == (code, "Status")


async def test_a_review_is_only_asked(http: httpx2.AsyncClient) -> None:
    """There are none to be listed."""
    assert (await http.get(f"{AUTHORIZATION}/subjectaccessreviews")).status_code == 405


async def test_the_rules_that_hold_for_oneself(http: httpx2.AsyncClient) -> None:
    """Rights on resources, and on paths."""
    answer = await http.post(f"{AUTHORIZATION}/selfsubjectrulesreviews", json={"spec": {"namespace": "default"}})
    status = answer.json()["status"]
    assert {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]} in status["resourceRules"]
    assert {"verbs": ["*"], "nonResourceURLs": ["*"]} in status["nonResourceRules"]


async def test_whose_a_token_is(http: httpx2.AsyncClient) -> None:
    """As extension servers ask, about their own clients."""
    issued = await http.post("/api/v1/namespaces/default/serviceaccounts/default/token", json={})
    found = [
        (await http.post(f"{AUTHENTICATION}/tokenreviews", json={"spec": {"token": token}})).json()["status"]
        for token in (issued.json()["status"]["token"], "wrong")
    ]
    assert found[0]["user"]["username"] == "system:serviceaccount:default:default"
    assert found[1] == {"user": {}, "error": "invalid bearer token"}
