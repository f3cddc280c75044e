"""The TLS side of an extender's address."""

from __future__ import annotations

import ssl
import tempfile
from pathlib import Path

from clusters.embedded.scheduling.configuration import ConfigurationError, ExtenderConfiguration, TLSConfiguration


def context_for(extender: ExtenderConfiguration) -> ssl.SSLContext:
    """How to verify the extender, and what to show it.

    ``enableHTTPS`` without a CA means that the certificate is not verified: kube-scheduler does so, without a warning.
    Raises ConfigurationError for files that cannot be read or used.
    """
    tls = extender.tls or TLSConfiguration()
    has_ca = bool(tls.ca_file or tls.ca_data)
    insecure = tls.insecure or (extender.enable_https and not has_ca)
    if insecure and has_ca:
        raise ConfigurationError(f"{extender.url_prefix}: tlsConfig has both a CA and insecure")
    try:
        context = ssl.create_default_context()
        if insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if has_ca:
            context = ssl.create_default_context(cadata=text_of(tls.ca_data, tls.ca_file))
        load_client_certificate(context, tls)
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(f"{extender.url_prefix}: tlsConfig cannot be used: {error}") from error
    return context


def text_of(data: bytes, file: str) -> str:
    """PEM from data, else from the file."""
    return data.decode("ascii") if data else Path(file).read_text("ascii")


def load_client_certificate(context: ssl.SSLContext, tls: TLSConfiguration) -> None:
    """Show a client certificate if the configuration names one."""
    if not (tls.cert_data or tls.cert_file):
        return
    # OpenSSL reads a certificate and its key from files only.
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as both:
        both.write(text_of(tls.cert_data, tls.cert_file) + "\n" + text_of(tls.key_data, tls.key_file))
        both.flush()
        context.load_cert_chain(both.name)
