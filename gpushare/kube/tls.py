"""Certificates that are read again when their files change: those of the API server's clients, and those of a server of ours.

A kubelet, cert-manager and kubeadm renew the authority and the certificates under a program that runs for months.
"""

from __future__ import annotations

import base64
import logging
import ssl
import tempfile
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from gpushare.errors import UsageError
from gpushare.kube.kubeconfig import Access

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
        # The certificate and the key of a login plugin, which no file has.
        self._presented: tuple[str, str] | None = None

    def present(self, certificate: str, key: str) -> None:
        """Show servers this client certificate from now on; both are PEM. Raises OSError and ValueError."""
        self._presented = certificate, key
        self._load_presented(self._current)

    def _load_presented(self, context: ssl.SSLContext) -> None:
        if self._presented:
            certificate, key = (text.encode() for text in self._presented)
            with _file(certificate) as of_certificate, _file(key) as of_key:
                context.load_cert_chain(of_certificate, of_key)

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,  # the signature is ssl's
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        """asyncio calls this for a new connection."""
        return self._followed().wrap_bio(incoming, outgoing, server_side, self._name or server_hostname, session)

    def _followed(self) -> ssl.SSLContext:
        versions = _versions(self._files)
        if versions == self._seen:
            return self._current
        self._seen = versions
        try:
            renewed = self._load()
            self._load_presented(renewed)
        except Exception as error:
            # A file that is half written fails in many ways, and the text of an error may quote it.
            why = error if isinstance(error, (OSError, UsageError)) else type(error).__name__
            _LOG.warning("certificates not read again reason=%s", why)
            return self._current
        self._current = renewed
        _LOG.info("certificates read again files=%s", ",".join(map(str, self._files)))
        return renewed


def followed(read: Callable[[], Access], sources: Sequence[Path]) -> FollowedContext:
    """The context of what is read of ``sources``, and of the files that it names. Raises OSError and ValueError."""
    access = read()
    cluster, user = access.cluster, access.user
    named = (cluster.certificate_authority, user.client_certificate, user.client_key)
    files = [*sources, *(Path(name) for name in named if name)]
    return FollowedContext(lambda: _context(read()), files, cluster.tls_server_name or None)


def _context(access: Access) -> ssl.SSLContext:
    cluster, user = access.cluster, access.user
    if cluster.certificate_authority_data:
        # Comments between certificates may be in any language, and Python takes ASCII only.
        text = _decoded(cluster.certificate_authority_data).decode("ascii", "replace").replace("\ufffd", "?")
        context = ssl.create_default_context(cadata=text)
    else:
        context = ssl.create_default_context(cafile=cluster.certificate_authority or None)
    if cluster.insecure_skip_tls_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    with (
        _file_of(user.client_certificate_data, user.client_certificate) as certificate,
        _file_of(user.client_key_data, user.client_key) as key,
    ):
        if certificate:
            context.load_cert_chain(certificate, key)
    return context


def _decoded(data: str) -> bytes:
    return base64.b64decode("".join(data.split()), validate=True)


@contextmanager
def _file_of(data: str, path: str) -> Generator[str]:
    """A file with the data, else the one at ``path``."""
    if not data:
        yield path
        return
    with _file(_decoded(data)) as name:
        yield name


@contextmanager
def _file(content: bytes) -> Generator[str]:
    """A file with this content: OpenSSL reads a certificate and its key from files only."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        yield file.name


def _versions(files: Sequence[Path]) -> list[tuple[Path, int, int, int]]:
    """Others when a file is written or gone, or another one takes its place."""
    found = []
    for path in files:
        with suppress(OSError):
            status = path.stat()
            found.append((path, status.st_ino, status.st_size, status.st_mtime_ns))
    return found
