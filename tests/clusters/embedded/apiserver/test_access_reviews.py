"""Promises of clusters.embedded.apiserver.access_reviews."""

from __future__ import annotations

from typing import Any

import pytest

from clusters.embedded.apiserver.server import EmbeddedApi
from tests.servers import plain_http

RIGHTS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
PODS = {"resourceAttributes": {"verb": "list", "resource": "pods", "namespace": "default"}}
PATH = {"nonResourceAttributes": {"path": "/healthz", "verb": "get"}}


@pytest.mark.parametrize(
    ("spec", "user", "allowed"),
    [(PODS, "", True), (PODS, "bob", False), (PATH, "", True)],
    ids=["administrator", "another user", "path"],
)
async def test_rights_of_a_user(embedded: EmbeddedApi, spec: dict[str, Any], user: str, allowed: bool) -> None:
    """The user's own rights are answered, and as impersonation another's."""
    headers = {"impersonate-user": user} if user else {}
    async with plain_http(await embedded.start()) as http:
        answer = await http.post(RIGHTS, json={"spec": spec}, headers=headers)
    assert (answer.status_code, answer.json()["status"]["allowed"]) == (201, allowed)


@pytest.mark.parametrize(("code", "spec"), [(422, {}), (422, PODS | PATH), (400, "text")], ids=["none", "both", "type"])
async def test_a_question_that_makes_no_sense_is_refused(embedded: EmbeddedApi, code: int, spec: Any) -> None:
    """The answer is a Status."""
    async with plain_http(await embedded.start()) as http:
        answer = await http.post(RIGHTS, json={"spec": spec})
    assert (answer.status_code, answer.json()["kind"]) == (code, "Status")


async def test_a_review_is_only_asked(embedded: EmbeddedApi) -> None:
    """Reviews cannot be listed, and other kinds of review are not there."""
    async with plain_http(await embedded.start()) as http:
        assert (await http.get(RIGHTS)).status_code == 405
        assert (await http.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", json={})).status_code == 404
