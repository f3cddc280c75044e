"""The extender's certificates: read from files, and read again when these change, as a renewed Secret does."""

from __future__ import annotations

import ssl
from functools import partial

from gpushare.errors import UsageError
from gpushare.kube.tls import FollowedContext
from gpushare.settings import TlsFiles


def load(files: TlsFiles) -> FollowedContext:
    """For new connections. Raises UsageError, which names the file that is wrong."""
    return FollowedContext(partial(_read, files), (files.certificate, files.key, files.client_ca))


def _read(files: TlsFiles) -> ssl.SSLContext:
    """A caller need not show a certificate (a probe has none), but one that it shows must be of our authority."""
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
