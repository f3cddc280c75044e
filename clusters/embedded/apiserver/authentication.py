"""The user that a request is from: a client certificate, a token, or an unknown one.

As the real API server: a certificate counts before a token, a credential that is wrong is 401 (an expired certificate too:
that is why the handshake does not look at the dates), no credential at all is the user ``system:anonymous``. Impersonation
is 501: a request that acted as its own user instead would have more rights than it asked for.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from cryptography import x509
from cryptography.x509.oid import NameOID

from clusters.embedded.apiserver.refusals import RefusalError, not_imitated

AUTHENTICATED: Final = "system:authenticated"
UNAUTHENTICATED: Final = "system:unauthenticated"
MASTERS: Final = "system:masters"
NODES_GROUP: Final = "system:nodes"
_CREDENTIAL: Final = "authentication.kubernetes.io/credential-id"
_ACCOUNT: Final = "system:serviceaccount:"


@dataclass(frozen=True, slots=True)
class User:
    """The user, as the authorizer sees it."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


ANONYMOUS: Final = User("system:anonymous", (UNAUTHENTICATED,))


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """The names in a certificate that the handshake has traced to our authority."""

    user: User | None
    """None for a certificate without a name."""
    not_before: datetime
    not_after: datetime

    @classmethod
    def parse(cls, der: bytes) -> ClientCertificate:
        """Read it: the common name is the user, the organizations are the groups."""
        certificate = x509.load_der_x509_certificate(der)
        with warnings.catch_warnings(action="ignore", category=UserWarning):
            # The name of a node may be longer than the 64 characters of X.509.
            names = [str(each.value) for each in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
        groups = [str(each.value) for each in certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
        extra = {_CREDENTIAL: (f"X509SHA256={hashlib.sha256(der).hexdigest()}",)}
        user = User(names[0], (*groups, AUTHENTICATED), extra=extra) if names else None
        return cls(user, certificate.not_valid_before_utc, certificate.not_valid_after_utc)


class Authenticator:
    """Finds the user of a request; ``now`` is the cluster's time of day in UTC, ``user_of`` finds the user of a token."""

    def __init__(
        self,
        user_of: Callable[[str], User | None],
        now: Callable[[], datetime],
        static: Mapping[str, User],
        without_credentials: User = ANONYMOUS,
    ) -> None:
        """``static``: users by token, as of ``--token-auth-file``; ``without_credentials``: the user of other requests."""
        self._without_credentials = without_credentials
        self._user_of = user_of
        self._now = now
        self._static = static

    def user_of(self, headers: Mapping[str, str], certificate: ClientCertificate | None) -> User:
        """The user. Raises RefusalError (401, 501)."""
        if any(name.startswith("impersonate-") for name in headers):
            raise not_imitated("impersonation")
        token = _bearer(headers.get("authorization", ""))
        wrong = bool(token)
        if certificate is not None and certificate.user is not None:
            if certificate.not_before <= self._now() <= certificate.not_after:
                return certificate.user
            wrong = True
        found = (self._static.get(token) or self._user_of(token)) if token else None
        if found is None and wrong:
            raise RefusalError(401, "Unauthorized", "Unauthorized")
        return found or self._without_credentials


def account_user(namespace: str, name: str, uid: str = "", extra: Mapping[str, tuple[str, ...]] | None = None) -> User:
    """The user that a ServiceAccount is."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED)
    return User(f"{_ACCOUNT}{namespace}:{name}", groups, uid, extra or {})


def credential(text: str) -> dict[str, tuple[str, ...]]:
    """The extra that holds the id of the user's credential."""
    return {_CREDENTIAL: (text,)}


def _bearer(header: str) -> str:
    kind, _, token = header.strip().partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""
