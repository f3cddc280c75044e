"""The embedded API server: one HTTP server on loopback, everything in memory."""

from __future__ import annotations

import asyncio
import copy
import functools
import random
import ssl
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import yaml
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from clusters.api import exchanges
from clusters.api.certificates import Authority
from clusters.api.resources import (
    ALL,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    NAMESPACES,
    PRIORITY_CLASSES,
    SERVICE_ACCOUNTS,
    Resource,
)
from clusters.embedded.apiserver.api_admission import DEFAULT_ACCOUNT
from clusters.embedded.apiserver.api_objects import Object
from clusters.embedded.apiserver.application import CERTIFICATE, ApiServer, Disturbances
from clusters.embedded.apiserver.authorization import (
    ANONYMOUS,
    AUTHENTICATED,
    MASTERS,
    Authenticator,
    Authorizer,
    ClientCertificate,
    User,
)
from clusters.embedded.apiserver.reads import PodLogs, Watches
from clusters.embedded.apiserver.service_accounts import ServiceAccountTokens
from clusters.embedded.apiserver.store import Change, Store
from clusters.embedded.apiserver.writes import Writes
from clusters.processes.http_server import HttpServer

# Changes of each kind that a watch can go back.
HISTORY: Final = 8192
# Idle connections stay open: a client that sends on one that was just closed would see an error.
_KEEP_ALIVE_SECONDS: Final = 3600
# Requests that are under way when the server stops have this long, in seconds.
_SHUTDOWN_SECONDS: Final = 5
# How long a client may take to answer the end of a connection, in seconds.
_GOODBYE_SECONDS: Final = 0.05
_HOST: Final = "127.0.0.1"
_HOSTS: Final = ("localhost", _HOST, "kubernetes", "kubernetes.default", "kubernetes.default.svc", "10.96.0.1")
# OpenSSL's flag: a chain is judged without its dates, so that a client with an expired certificate gets an answer (401).
_NO_CHECK_TIME: Final = 0x200000
# The user of every request to a server without TLS.
_ADMINISTRATOR: Final = User("admin", (MASTERS, AUTHENTICATED))


def utc_now() -> datetime:
    """The time of day; tests pass another clock."""
    return datetime.now(UTC)  # noqa: TID251 - the edge where the clock comes in


class EmbeddedApi:
    """The API server between ``start`` and ``stop``.

    ``writes`` and ``store`` are there for a test that prepares objects in the same process. ``history``: how many changes of
    each kind a watch can go back before it gets an ERROR event with 410. With an ``authority`` it speaks TLS and knows its
    clients by its certificates and by tokens; without one it speaks plain HTTP and takes every client for an administrator.
    ``watch_lag``: see ``Watches``. ``disturbance``: see ``Disturbances``.
    """

    def __init__(
        self,
        *,
        now: Callable[[], datetime] = utc_now,
        seed: int | None = None,
        history: int = HISTORY,
        authority: Authority | None = None,
        watch_lag: float = 0.0,
        disturbance: float = 0.0,
    ) -> None:
        self._authority = authority
        self.store = Store(ALL, history=history)
        self.writes = Writes(self.store, now, random.Random(seed))  # noqa: S311 - names of pods
        self.watches = Watches(self.store, watch_lag)
        self._logs = PodLogs(self.store)
        self.disturbances = Disturbances(disturbance, random.Random(seed))  # noqa: S311 - no secret
        accounts = ServiceAccountTokens(self.store, now)
        without_credentials = _ADMINISTRATOR if authority is None else ANONYMOUS
        authenticator = Authenticator(accounts.user_of, now, without_credentials)
        access = authenticator, Authorizer(self.store)
        self._app = ApiServer(self.writes, self.watches, self._logs, access, accounts, self.disturbances)
        self.address = ""
        self.store.note = self._note
        self._server: HttpServer | None = None
        bootstrap(self.store, self.writes)
        # No client can have seen what was before.
        self.store.forget_changes()

    async def start(self, port: int = 0) -> str:
        """Listen on loopback (port 0: any free one) and answer the URL. Raises OSError when the port is taken."""
        self._server = HttpServer(
            self._app,
            http=_Protocol,
            ssl_context_factory=None if self._authority is None else lambda *_: self._tls(),
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        )
        self.watches.closed = False
        self.address = f"{_HOST}:{await self._server.listen(port)}"
        return f"{'http' if self._authority is None else 'https'}://{self.address}"

    async def stop(self) -> None:
        """End the watches cleanly, then the server. The objects stay, for another ``start`` of the same server."""
        if self._server is None:
            return
        self.watches.closed = True
        self.watches.close()
        await self.disturbances.close()
        await self._server.end()
        await self._logs.close()
        self._server = None

    def overwrite(self, resource: Resource, item: Object) -> None:
        """Write an object past all checks, as a server of another release may have it."""
        self._app.user = _ADMINISTRATOR
        self.store.put(resource, item)

    def saved(self, resource: Resource, namespace: str) -> Callable[[], None]:
        """A function that restores the objects of this kind in a namespace as they are now; to be called while no server runs."""
        restore = self.store.saved(resource, namespace)

        def restored() -> None:
            self._app.user = _ADMINISTRATOR
            restore()
            self.store.forget_changes()

        return restored

    def _note(self, change: Change) -> None:
        if exchanges.LISTENERS:
            old, new = (None if one is None else one.item for one in (change.old, change.new))
            kind, user = change.last.resource.plural, self._app.user.name
            exchanges.pass_on(exchanges.Written(time.monotonic(), self.address, user, kind, old, new))

    def _tls(self) -> ssl.SSLContext:
        """Our certificate; a client may show one of our authority."""
        assert self._authority is not None
        pair = self._authority.issue_server("kube-apiserver", _HOSTS)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pair.certificate, pair.key)
        context.load_verify_locations(self._authority.ca)
        context.verify_mode = ssl.CERT_OPTIONAL
        context.verify_flags |= _NO_CHECK_TIME
        return context

    def expire_history(self) -> None:
        """Forget all changes, as if much time had passed: a client that resumes at an older version gets 410."""
        self.store.forget_changes()


class _Protocol(HttpToolsProtocol):
    """A connection that remembers its client."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Read the client's certificate once; every request of the connection finds it in its state."""
        super().connection_made(transport)
        tls = transport.get_extra_info("ssl_object")
        shown = tls.getpeercert(binary_form=True) if tls is not None else None
        if shown:
            self.app_state = {**self.app_state, CERTIFICATE: ClientCertificate.parse(shown)}

    def shutdown(self) -> None:
        """End the connection; one under way ends after its answer."""
        super().shutdown()
        self._hasten()

    def on_response_complete(self) -> None:
        """The answer is out; when that was the last one, the connection ends."""
        super().on_response_complete()
        self._hasten()

    def _hasten(self) -> None:
        """A client that does not look at an idle connection would hold its end up for seconds (TLS says good-bye twice)."""
        if self.transport.is_closing():
            asyncio.get_running_loop().call_later(_GOODBYE_SECONDS, self.transport.abort)


_MARKS: Final = {
    "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
    "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
}


def bootstrap(store: Store, writes: Writes) -> None:
    """Create the objects of every cluster that are not there yet (``bootstrap.yaml``)."""
    for resource, item in copy.deepcopy(_objects()):
        namespace, name = item["metadata"].get("namespace", ""), item["metadata"]["name"]
        if store.get(resource, namespace, name) is None:
            writes.create(resource, namespace, item)


@functools.cache
def _objects() -> list[tuple[Resource, Object]]:
    whole: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("bootstrap.yaml").read_text())
    found: list[tuple[Resource, Object]] = [(NAMESPACES, {"metadata": {"name": one}}) for one in whole["namespaces"]]
    # A controller makes them everywhere else; here pods can come from the first moment on.
    accounts = [{"metadata": {"name": DEFAULT_ACCOUNT, "namespace": one}} for one in whole["namespaces"]]
    found += [(SERVICE_ACCOUNTS, account) for account in accounts]
    found += [(PRIORITY_CLASSES, one) for one in whole["priorities"]]
    for role in whole["roles"]:
        head = {"metadata": {"name": role["name"], **_MARKS}}
        found.append((CLUSTER_ROLES, {**head, "rules": role["rules"]}))
        reference = {"kind": CLUSTER_ROLES.kind, "name": role["name"]}
        found.append((CLUSTER_ROLE_BINDINGS, {**head, "subjects": role["subjects"], "roleRef": reference}))
    return found
