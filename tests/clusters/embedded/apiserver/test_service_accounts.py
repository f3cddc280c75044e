"""Promises of clusters.embedded.apiserver.service_accounts: tokens that are issued are read again, for their time."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import jwt
import pytest

from clusters.api.resources import NODES, PODS, SERVICE_ACCOUNTS
from clusters.embedded.apiserver.deletion import DeleteOptions
from clusters.embedded.apiserver.service_accounts import ISSUER, ServiceAccountTokens
from clusters.embedded.apiserver.writes import Writes
from tests.clusters.embedded.apiserver.samples import NOW, new_writes, pod, refused


class Clock:
    """A time of day that a test sets."""

    def __init__(self) -> None:
        self.at = NOW

    def now(self) -> Any:
        """That time."""
        return self.at


def issuer() -> tuple[Writes, Clock, ServiceAccountTokens]:
    """An API server's objects, its clock, its tokens."""
    writes, clock = new_writes(), Clock()
    return writes, clock, ServiceAccountTokens(writes.store, clock.now)


def token(tokens: ServiceAccountTokens, writes: Writes, **spec: Any) -> str:
    """A token of the default account."""
    return str(tokens.issue(writes, "default", "default", {"spec": spec})["status"]["token"])


def test_a_token_is_its_accounts() -> None:
    """A JWT that a client can look into."""
    writes, _, tokens = issuer()
    issued = token(tokens, writes)
    user = tokens.user_of(issued)
    assert user is not None
    assert (user.name, user.groups[1]) == ("system:serviceaccount:default:default", "system:serviceaccounts:default")
    claims = jwt.decode(issued, options={"verify_signature": False})
    assert claims["exp"] - claims["iat"] == 3600
    assert (claims["iss"], claims["aud"]) == (ISSUER, [ISSUER])
    assert user.extra == {"authentication.kubernetes.io/credential-id": (f"JTI={claims['jti']}",)}


def test_a_token_has_its_time() -> None:
    """By the cluster's clock, with a minute for clocks that differ."""
    writes, clock, tokens = issuer()
    issued = token(tokens, writes, expirationSeconds=600)
    for seconds, good in ((-61, False), (-30, True), (659, True), (661, False)):
        clock.at = NOW + timedelta(seconds=seconds)
        assert (tokens.user_of(issued) is not None) is good, seconds


@pytest.mark.parametrize("wrong", ["", "a.b.c", "nonsense"])
def test_what_is_no_token_has_no_user(wrong: str) -> None:
    """Whatever it is."""
    assert issuer()[2].user_of(wrong) is None


def test_a_token_of_another_cluster_or_audience_has_no_user() -> None:
    """The key and the audience must be ours."""
    writes, clock, tokens = issuer()
    assert tokens.user_of(token(ServiceAccountTokens(writes.store, clock.now), writes)) is None
    assert tokens.user_of(token(tokens, writes, audiences=["other"])) is None


def test_a_token_ends_with_its_account() -> None:
    """One of the same name later is another."""
    writes, _, tokens = issuer()
    issued = token(tokens, writes)
    writes.delete(SERVICE_ACCOUNTS, "default", "default", DeleteOptions())
    assert tokens.user_of(issued) is None
    writes.create(SERVICE_ACCOUNTS, "default", {"metadata": {"name": "default"}})
    assert tokens.user_of(issued) is None


def test_a_bound_token_ends_with_its_pod() -> None:
    """While the account exists, the token names it."""
    writes, _, tokens = issuer()
    created = writes.create(PODS, "default", pod()).item
    issued = token(tokens, writes, boundObjectRef={"kind": "Pod", "apiVersion": "v1", "name": "p"})
    user = tokens.user_of(issued)
    assert user is not None
    assert user.extra["authentication.kubernetes.io/pod-name"] == ("p",)
    assert user.extra["authentication.kubernetes.io/pod-uid"] == (created["metadata"]["uid"],)
    writes.delete(PODS, "default", "p", DeleteOptions(grace_seconds=0))
    assert tokens.user_of(issued) is None


def test_a_token_of_a_pod_on_a_node_names_the_node() -> None:
    """By its name alone if there is no such node object; the claim is as old as the token."""
    writes, _, tokens = issuer()
    reference = {"kind": "Pod", "apiVersion": "v1", "name": "p"}
    writes.create(PODS, "default", pod(nodeName="n"))
    issued_before = token(tokens, writes, boundObjectRef=reference)
    node = writes.create(NODES, "", {"metadata": {"name": "n"}}).item
    issued_after = token(tokens, writes, boundObjectRef=reference)
    before, after = tokens.user_of(issued_before), tokens.user_of(issued_after)
    assert before is not None
    assert after is not None
    assert before.extra["authentication.kubernetes.io/node-name"] == ("n",)
    assert "authentication.kubernetes.io/node-uid" not in before.extra
    assert after.extra["authentication.kubernetes.io/node-name"] == ("n",)
    assert after.extra["authentication.kubernetes.io/node-uid"] == (node["metadata"]["uid"],)


@pytest.mark.parametrize(
    ("code", "spec"),
    [
        (422, {"expirationSeconds": 10}),
        (422, {"expirationSeconds": 2**33}),
        (400, {"expirationSeconds": "x"}),
        (400, {"boundObjectRef": {"kind": "Node", "name": "n"}}),
        (404, {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "gone"}}),
        (409, {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "p", "uid": "other"}}),
        (400, {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "other"}}),
    ],
    ids=str,
)
def test_a_request_that_makes_no_sense_is_refused(code: int, spec: dict[str, Any]) -> None:
    """A token request is refused if its time is out of range or not a number, or if its bound object is not usable."""
    writes, _, tokens = issuer()
    writes.create(SERVICE_ACCOUNTS, "default", {"metadata": {"name": "bot"}})
    writes.create(PODS, "default", pod())
    writes.create(PODS, "default", pod("other", serviceAccountName="bot"))
    refused(code, lambda: token(tokens, writes, **spec))
