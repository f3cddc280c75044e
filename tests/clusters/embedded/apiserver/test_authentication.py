"""Promises of clusters.embedded.apiserver.authentication: the user that a request is from."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from clusters.embedded.apiserver.authentication import (
    ANONYMOUS,
    Authenticator,
    ClientCertificate,
    Headers,
    User,
    account_of,
    account_user,
    impersonated,
)
from tests.clusters.embedded.apiserver.samples import refused

NOW = datetime(2026, 1, 2, tzinfo=UTC)
ANN = User("ann", ("people",))
BOT = User("bot")
GOOD = ClientCertificate(ANN, NOW - timedelta(days=1), NOW + timedelta(days=1))


def headers(**values: str) -> Headers:
    """Headers of a request; underscores are hyphens."""
    return Headers([(key.replace("_", "-").encode(), value.encode()) for key, value in values.items()])


def who(certificate: ClientCertificate | None = None, token: str = "") -> User:
    """The user that the authenticator sees."""
    authenticator = Authenticator({"good": BOT}.get, lambda: NOW, {"known": ANN})
    return authenticator.user_of(headers(**({"authorization": token} if token else {})), certificate)


def test_a_credential_names_its_user() -> None:
    """A certificate before a token; nothing is anonymous; another scheme is nothing."""
    assert who(GOOD) == who(GOOD, "Bearer wrong") == who(token="Bearer known") == ANN
    assert who(token="bearer good") == BOT
    assert who() == who(token="Basic abc") == ANONYMOUS


def test_a_wrong_credential_is_401() -> None:
    """An unknown token, a certificate before or after its time; a good token beside it counts."""
    late, early = (
        replace(GOOD, not_after=NOW - timedelta(seconds=1)),
        replace(GOOD, not_before=NOW + timedelta(seconds=1)),
    )
    refused(401, lambda: who(token="Bearer wrong"))
    refused(401, lambda: who(late))
    refused(401, lambda: who(early))
    assert who(late, "Bearer good") == BOT
    assert who(replace(GOOD, user=None)) == ANONYMOUS


def test_service_accounts_are_users() -> None:
    """A service account is a user with the name and groups that Kubernetes gives it."""
    user = account_user("ns", "bot", "u")
    assert account_of(user.name) == ("ns", "bot")
    assert user.groups == ("system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated")
    assert account_of("ann") is None
    assert account_of("system:serviceaccount:ns") is None


def test_one_can_act_for_another() -> None:
    """The name, and groups that come with it."""
    assert impersonated(headers()) is None
    assert impersonated(headers(impersonate_user="ann")) == User("ann", ("system:authenticated",))
    assert impersonated(headers(impersonate_user="system:anonymous")) == ANONYMOUS
    assert impersonated(headers(impersonate_user="system:serviceaccount:ns:bot")) == account_user("ns", "bot")
    more = headers(impersonate_user="a", impersonate_group="g")
    assert impersonated(more) == User("a", ("g", "system:authenticated"))


def test_half_a_user_is_refused() -> None:
    """A group needs a name; uids and extra fields are not imitated."""
    refused(400, lambda: impersonated(headers(impersonate_group="g")))
    refused(501, lambda: impersonated(headers(impersonate_user="a", impersonate_uid="7")))
    refused(501, lambda: impersonated(headers(impersonate_user="a", impersonate_extra_k="v")))
