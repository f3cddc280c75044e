"""Tokens of ServiceAccounts: signed by the cluster's key, good for one account and a while, as the TokenRequest API issues them."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import jwt
from cryptography.hazmat.primitives.asymmetric import ec

from clusters.api.resources import NODES, PODS, SERVICE_ACCOUNTS, Resource
from clusters.embedded.apiserver.api_objects import Object, uid_of
from clusters.embedded.apiserver.authorization import User, account_user, credential
from clusters.embedded.apiserver.refusals import bad_request
from clusters.embedded.apiserver.store import Store
from clusters.embedded.apiserver.update_rules import rfc3339
from clusters.embedded.apiserver.writes import Writes

ISSUER: Final = "https://kubernetes.default.svc.cluster.local"
_ALGORITHM: Final = "ES256"
_DEFAULT_SECONDS: Final = 3600
# The clocks of others may differ by this; the real server's allowance.
_LEEWAY_SECONDS: Final = 60
_PRIVATE: Final = "kubernetes.io"


class ServiceAccountTokens:
    """Issues tokens and reads them again; ``now`` is the cluster's time of day in UTC."""

    def __init__(self, store: Store, now: Callable[[], datetime]) -> None:
        self._store = store
        self._now = now
        self._key = ec.generate_private_key(ec.SECP256R1())

    def issue(self, writes: Writes, namespace: str, name: str, body: Object) -> Object:
        """The TokenRequest with its token. Raises RefusalError (400, 404)."""
        account = writes.get(SERVICE_ACCOUNTS, namespace, name).item
        spec = _spec(body)
        bound = self._bound_objects(writes, namespace, name, spec["boundObjectRef"])
        began = self._now()
        ends = began + timedelta(seconds=spec["expirationSeconds"])
        private: Object = {"namespace": namespace, "serviceaccount": {"name": name, "uid": uid_of(account)}}
        claims = {
            "aud": spec["audiences"],
            "exp": int(ends.timestamp()),
            "iat": int(began.timestamp()),
            "iss": ISSUER,
            "jti": str(uuid.uuid4()),
            _PRIVATE: private | bound,
            "nbf": int(began.timestamp()),
            "sub": account_user(namespace, name).name,
        }
        token = jwt.encode(claims, self._key, _ALGORITHM)
        metadata = {"name": name, "namespace": namespace, "uid": uid_of(account), "creationTimestamp": rfc3339(began)}
        status = {"token": token, "expirationTimestamp": rfc3339(ends)}
        return {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "metadata": metadata} | {
            "spec": spec,
            "status": status,
        }

    def user_of(self, token: str) -> User | None:
        """The account of the token, while the token is good: our signature, our audience, its time, and the account exists."""
        # The dates are looked at here: the library knows no clock but the machine's.
        options: Any = {"verify_exp": False, "verify_nbf": False, "verify_iat": False, "require": ["exp", "nbf"]}
        key = self._key.public_key()
        try:
            claims = jwt.decode(token, key, [_ALGORITHM], options=options, audience=ISSUER, issuer=ISSUER)
        except jwt.InvalidTokenError:
            return None
        private, now = claims[_PRIVATE], self._now().timestamp()
        namespace, account, pod = private["namespace"], private["serviceaccount"], private.get("pod")
        if not claims["nbf"] - _LEEWAY_SECONDS <= now <= claims["exp"] + _LEEWAY_SECONDS:
            return None
        if not self._is_there(SERVICE_ACCOUNTS, namespace, account):
            return None
        extra = credential(f"JTI={claims['jti']}")
        if pod:
            if not self._is_there(PODS, namespace, pod):
                return None
            extra |= _extra("pod", pod) | _extra("node", private.get("node", {}))
        return account_user(namespace, account["name"], account["uid"], extra)

    def _is_there(self, resource: Resource, namespace: str, claim: Mapping[str, str]) -> bool:
        stored = self._store.get(resource, namespace, claim["name"])
        return stored is not None and uid_of(stored.item) == claim["uid"]

    def _bound_objects(self, writes: Writes, namespace: str, account: str, reference: Object | None) -> Object:
        """The claims about the pod that the token is bound to, and about that pod's node; empty without a reference."""
        if reference is None:
            return {}
        name = reference.get("name", "")
        pod = writes.get(PODS, namespace, name).item
        if pod["spec"].get("serviceAccountName", "") != account:
            raise bad_request(f'cannot bind token for serviceaccount "{account}" to a pod of another one')
        claims = {"pod": {"name": name, "uid": uid_of(pod)}}
        node = pod["spec"].get("nodeName")
        if node:
            stored = self._store.get(NODES, "", node)
            claims["node"] = {"name": node} | ({"uid": uid_of(stored.item)} if stored else {})
        return claims


def _extra(kind: str, claim: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    return {f"authentication.kubernetes.io/{kind}-{key}": (value,) for key, value in claim.items()}


def _spec(body: Object) -> Object:
    given = body.get("spec") or {}
    return {
        "audiences": given.get("audiences") or [ISSUER],
        "expirationSeconds": given.get("expirationSeconds", _DEFAULT_SECONDS),
        "boundObjectRef": given.get("boundObjectRef"),
    }
