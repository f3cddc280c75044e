"""The door of the API server: the user of a request (authentication, impersonation), and the user's rights (authorization)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from clusters.embedded.apiserver.attributes import Attributes, attributes_of
from clusters.embedded.apiserver.authentication import (
    ANONYMOUS,
    Authenticator,
    Headers,
    User,
    account_of,
    impersonated,
)
from clusters.embedded.apiserver.authorization import Authorizer, forbidden

_NODE: Final = "system:node:"
_AUTHENTICATION: Final = "authentication.k8s.io"


class Access:
    """Finds the user of a request, and refuses a user without the right."""

    def __init__(self, authenticator: Authenticator, authorizer: Authorizer) -> None:
        self.authenticator = authenticator
        self.authorizer = authorizer

    def user_of(self, method: str, path: str, params: dict[str, str], headers: Headers, certificate: Any) -> User:
        """The user that the request acts as. Raises RefusalError (400, 401, 403)."""
        user = self.authenticator.user_of(headers, certificate)
        wish = attributes_of(method, path, params)
        other = impersonated(headers)
        if other is not None:
            self._check_impersonation(user, other, wish)
            user = other
        decision = self.authorizer.decide(user, wish)
        if not decision.allowed:
            raise forbidden(user, wish, decision.reason)
        return user

    def _check_impersonation(self, user: User, other: User, wish: Attributes) -> None:
        for needed in _rights_to_be(other):
            decision = self.authorizer.decide(user, needed)
            if not decision.allowed:
                raise forbidden(user, wish, decision.reason, verb=f"impersonate-on:{_mode(other)}:{wish.verb}")


def _rights_to_be(other: User) -> Iterator[Attributes]:
    """The rights that acting as that user takes."""
    account = account_of(other.name)
    wish = Attributes("impersonate", resource="users", name=other.name)
    if account is not None:
        wish = replace(wish, resource="serviceaccounts", namespace=account[0], name=account[1])
    yield wish
    # Groups that come with the name need no right of their own.
    implied = (*ANONYMOUS.groups, "system:authenticated", *(("system:serviceaccounts",) if account else ()))
    for group in other.groups:
        if group not in implied and not (account and group == f"system:serviceaccounts:{account[0]}"):
            yield Attributes("impersonate", resource="groups", name=group)
    if other.uid:
        yield Attributes("impersonate", group=_AUTHENTICATION, resource="uids", name=other.uid)
    for key, values in other.extra.items():
        for value in values:
            yield Attributes("impersonate", group=_AUTHENTICATION, resource="userextras", subresource=key, name=value)


def _mode(other: User) -> str:
    """The real server's word for the kind of user that is impersonated."""
    if account_of(other.name) is not None:
        return "serviceaccount"
    return "arbitrary-node" if other.name.startswith(_NODE) else "user-info"
