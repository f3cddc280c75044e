"""Certificates that are read again when their files change: those of the API server's clients, and those of a server of ours.

A kubelet, cert-manager and kubeadm renew the authority and the certificates under a program that runs for months.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

from lightkube.config.client_adapter import verify_cluster
from lightkube.config.kubeconfig import SingleConfig
from lightkube.config.models import User
from lightkube.core.exceptions import ConfigError

from gpushare.errors import UsageError

_LOG = logging.getLogger(__name__)


class FollowedContext(ssl.SSLContext):
    """For each new connection the context that ``load`` makes of ``files`` as they are then; open connections keep theirs.

    While the files cannot be read, or do not fit each other, the former context stays. Raises what ``load`` does the first time.
    """

    def __new__(cls, *_: Any) -> Self:
        """Its own settings are never used."""
        return super().__new__(cls, ssl.PROTOCOL_TLS_CLIENT)

    def __init__(
        self, load: Callable[[], ssl.SSLContext], files: Sequence[Path], server_name: str | None = None
    ) -> None:
        self._load = load
        # The name by which servers are verified, and that they are sent, in place of the host of the URL.
        self._name = server_name
        self._files = files
        self._seen = _versions(files)
        self._current = load()
        self._protocols: list[str] = []

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,  # the signature is ssl's
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        """asyncio and anyio call this for a new connection."""
        return self._followed().wrap_bio(incoming, outgoing, server_side, self._name or server_hostname, session)

    def wrap_socket(self, *arguments: Any, **more: Any) -> ssl.SSLSocket:
        """The same of a plain socket."""
        return self._followed().wrap_socket(*arguments, **more)

    def set_alpn_protocols(self, alpn_protocols: Any) -> None:
        """httpcore calls this before a new connection."""
        self._protocols = list(alpn_protocols)
        self._current.set_alpn_protocols(self._protocols)

    def _followed(self) -> ssl.SSLContext:
        versions = _versions(self._files)
        if versions == self._seen:
            return self._current
        self._seen = versions
        try:
            renewed = self._load()
        except (ConfigError, OSError, UsageError) as error:
            _LOG.warning("certificates not read again reason=%s", error)
            return self._current
        except Exception as error:
            # A file that is half written fails in many ways, and the text of an error may quote it.
            _LOG.warning("certificates not read again reason=%s", type(error).__name__)
            return self._current
        if self._protocols:
            renewed.set_alpn_protocols(self._protocols)
        self._current = renewed
        _LOG.info("certificates read again files=%s", ",".join(map(str, self._files)))
        return renewed


def followed(
    reread: Callable[[], SingleConfig], sources: Sequence[Path], *, trust_env: bool, server_name: str | None = None
) -> FollowedContext:
    """The context of the configuration in ``sources``, and of the files that it names. Raises what lightkube does."""
    config = reread()
    user = config.user or User()
    named = (config.cluster.certificate_auth, user.client_cert, user.client_key)
    files = [*sources, *(Path(config.abs_file(name)) for name in named if name)]

    def load() -> ssl.SSLContext:
        now = reread()
        return verify_cluster(now.cluster, now.user or User(), now.abs_file, trust_env=trust_env)

    return FollowedContext(load, files, server_name)


def _versions(files: Sequence[Path]) -> list[tuple[int, int, int] | None]:
    """Others when a file is written, or another one takes its place; None for one that is not there."""
    return [_version(path) for path in files]


def _version(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
