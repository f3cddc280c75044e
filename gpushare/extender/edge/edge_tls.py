"""The extender's certificates: read from files, and read again when these change, as a renewed Secret does."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import ssl
from collections.abc import Callable
from typing import Final

from gpushare.errors import UsageError
from gpushare.settings import TlsFiles

_LOG = logging.getLogger(__name__)

# How often the files are looked at; kubelets renew mounted Secrets within a minute or two.
_LOOK_SECONDS: Final = 10.0


def load(files: TlsFiles) -> ssl.SSLContext:
    """For new connections. Raises UsageError, which names the file that is wrong.

    A caller need not show a certificate (a probe has none), but one that it shows must be of our authority.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    context.verify_mode = ssl.CERT_OPTIONAL
    try:
        context.load_cert_chain(files.certificate, files.key)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(
            f"--tls-cert-file {files.certificate} and --tls-private-key-file {files.key} are no pair: {error}"
        ) from error
    try:
        context.load_verify_locations(files.client_ca)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(f"--client-ca-file {files.client_ca} holds no certificates: {error}") from error
    return context


def fingerprint(files: TlsFiles) -> str:
    """Another one when a file has changed; one that cannot be read has changed."""
    digest = hashlib.sha256()
    for path in (files.certificate, files.key, files.client_ca):
        try:
            digest.update(path.read_bytes())
        except OSError as error:
            digest.update(str(error).encode())
    return digest.hexdigest()


async def follow(files: TlsFiles, renew: Callable[[ssl.SSLContext], None]) -> None:
    """Call ``renew`` with each new set of certificates until cancelled; while they are no set, the former ones stay."""
    known = fingerprint(files)
    while True:
        await asyncio.sleep(_LOOK_SECONDS)
        found = fingerprint(files)
        if found == known:
            continue
        known = found
        try:
            renew(load(files))
        except UsageError as error:
            _LOG.warning("certificates not renewed reason=%s", error)
        else:
            _LOG.info("certificates renewed")
