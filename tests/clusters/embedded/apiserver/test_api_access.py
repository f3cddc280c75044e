"""Promises of clusters.embedded.apiserver.authorization, through the door: TLS, users, and their rights."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from clusters.api.certificates import Authority, KeyPair
from clusters.api.connection import TransportError
from clusters.api.resources import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES
from clusters.embedded.apiserver.authentication import User
from clusters.embedded.apiserver.server import EmbeddedApi
from tests.servers import Caller, plain_http

PODS = "/api/v1/namespaces/default/pods"
WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
ACCESS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """The cluster's own."""
    return Authority(tmp_path)


@pytest.fixture
async def secured(authority: Authority) -> AsyncIterator[EmbeddedApi]:
    """A server that speaks TLS."""
    server = EmbeddedApi(authority=authority, tokens={"known": User("ann", ("system:authenticated",))})
    await server.start()
    yield server
    await server.stop()


@asynccontextmanager
async def client(
    server: EmbeddedApi, authority: Authority, *, certificate: KeyPair | None = None, token: str = ""
) -> AsyncIterator[Caller]:
    """A client that trusts the cluster's authority."""
    context = ssl.create_default_context(cafile=str(authority.ca))
    if certificate is not None:
        context.load_cert_chain(certificate.certificate, certificate.key)
    headers = {"authorization": f"Bearer {token}"} if token else {}
    base = f"https://{server.address}"
    async with Caller(base, tls=context, headers=headers) as http:
        yield http


async def name_of(http: Caller, **headers: str) -> str:
    """The user that the server finds for a client."""
    answer = await http.post(WHO, json={}, headers=headers)
    return str(answer.json()["status"]["userInfo"]["username"])


async def test_a_certificate_opens(secured: EmbeddedApi, authority: Authority) -> None:
    """An administrator's, on every request of the connection."""
    async with client(secured, authority, certificate=authority.issue_client("root", "system:masters")) as http:
        assert [(await http.get(PODS)).status_code for _ in range(2)] == [200, 200]
        assert await name_of(http) == "root"


async def test_an_expired_certificate_gets_an_answer(secured: EmbeddedApi, authority: Authority) -> None:
    """401 and not a handshake that fails; a certificate of another authority is no credential."""
    late = authority.issue_client("root", "system:masters", expires=datetime(2020, 1, 1, tzinfo=UTC))
    async with client(secured, authority, certificate=late) as http:
        answer = await http.get("/healthz")
        assert (answer.status_code, answer.json()["reason"]) == (401, "Unauthorized")


async def test_another_authoritys_certificate_does_not_open(
    secured: EmbeddedApi, authority: Authority, tmp_path: Path
) -> None:
    """The connection ends."""
    (tmp_path / "other").mkdir()
    stranger = Authority(tmp_path / "other").issue_client("root", "system:masters")
    async with client(secured, authority, certificate=stranger) as http:
        with pytest.raises(TransportError):
            await http.get("/healthz")


async def test_anonymous_callers_see_health_and_version_only(secured: EmbeddedApi, authority: Authority) -> None:
    """Anonymous callers see only health and version, as on the real server."""
    async with client(secured, authority) as http:
        paths = ("/healthz", "/version", "/api", PODS, "/nothing")
        assert [(await http.get(path)).status_code for path in paths] == [200, 200, 403, 403, 403]


async def test_tokens(secured: EmbeddedApi, authority: Authority) -> None:
    """Known ones, those of accounts, and wrong ones."""
    async with client(secured, authority, certificate=authority.issue_client("root", "system:masters")) as http:
        path = "/api/v1/namespaces/default/serviceaccounts/default/token"
        issued = (await http.post(path, json={})).json()["status"]["token"]
    async with client(secured, authority, token=issued) as http:
        assert await name_of(http) == "system:serviceaccount:default:default"
    async with client(secured, authority, token="known") as http:
        assert await name_of(http) == "ann"
        assert (await http.get(PODS)).status_code == 403
    async with client(secured, authority, token="wrong") as http:
        assert (await http.get("/healthz")).status_code == 401


async def test_roles_decide_at_once(secured: EmbeddedApi, authority: Authority) -> None:
    """A binding is seen by the next request, and what it gives can be asked for."""
    rule = {"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]}
    reference = {"kind": "ClusterRole", "name": "r", "apiGroup": "rbac.authorization.k8s.io"}
    question = {"spec": {"resourceAttributes": {"verb": "list", "resource": "pods"}}}

    async with client(secured, authority, token="known") as http:

        async def seen() -> tuple[int, bool]:
            status: Any = (await http.post(ACCESS, json=question)).json()["status"]
            return (await http.get(PODS)).status_code, status["allowed"]

        assert await seen() == (403, False)
        secured.writes.create(CLUSTER_ROLES, "", {"metadata": {"name": "r"}, "rules": [rule]})
        subjects = [{"kind": "User", "name": "ann"}]
        bound = {"metadata": {"name": "b"}, "roleRef": reference, "subjects": subjects}
        secured.writes.create(CLUSTER_ROLE_BINDINGS, "", bound)
        assert await seen() == (200, True)


async def test_administrators_act_for_others(secured: EmbeddedApi, authority: Authority) -> None:
    """Administrators may impersonate, others get a refusal; a uid is not imitated."""
    async with client(secured, authority, certificate=authority.issue_client("root", "system:masters")) as http:
        assert await name_of(http, **{"impersonate-user": "bob"}) == "bob"
        assert (await http.get(PODS, headers={"impersonate-user": "bob", "impersonate-uid": "1"})).status_code == 501
    async with client(secured, authority, token="known") as http:
        answer = await http.get(PODS, headers={"impersonate-user": "bob"})
        assert 'cannot impersonate resource "users"' in answer.json()["message"]


async def test_server_without_certificates_makes_all_administrators() -> None:
    """A server without certificates treats every caller as an administrator, for tests of other things."""
    server = EmbeddedApi()
    url = await server.start()
    try:
        async with plain_http(url) as http:
            assert (await http.get(PODS)).status_code == 200
    finally:
        await server.stop()
