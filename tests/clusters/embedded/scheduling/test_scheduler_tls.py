from __future__ import annotations

import ssl
import subprocess
from pathlib import Path

import pytest

from clusters.embedded.scheduling.cluster_view import node_info
from clusters.embedded.scheduling.configuration import ConfigurationError, ExtenderConfiguration, TLSConfiguration
from clusters.embedded.scheduling.extender_client import ExtenderClient, ExtenderError
from clusters.embedded.scheduling.scheduler_tls import context_for
from tests.clusters.embedded.scheduling.local_extender import LocalExtender
from tests.clusters.embedded.scheduling.scheduling_objects import make_node, make_pod


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A self-signed certificate for the name ``extender``, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = folder / "cert.pem", folder / "key.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=extender"
    subprocess.run(
        [*command.split(), "-addext", "subjectAltName=DNS:extender", "-keyout", str(key), "-out", str(certificate)],
        check=True,
        capture_output=True,
    )
    return certificate, key


async def call(pair: tuple[Path, Path], tls: TLSConfiguration | None, *, mutual: bool = False) -> None:
    """One filter call to an extender that serves TLS."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(*pair)
    if mutual:
        server.verify_mode = ssl.CERT_REQUIRED
        server.load_verify_locations(pair[0])
    async with LocalExtender(tls=server) as extender:
        url = extender.url.replace("http://", "https://")
        configuration = ExtenderConfiguration(
            url_prefix=url, filter_verb="filter", node_cache_capable=True, enable_https=True, tls=tls
        )
        client = ExtenderClient(configuration)
        try:
            await client.filter(make_pod(), [node_info(make_node())])
        finally:
            await client.close()


async def test_tls_without_a_ca_is_not_verified(pair: tuple[Path, Path]) -> None:
    """enableHTTPS alone accepts any certificate, as kube-scheduler does."""
    await call(pair, None)


async def test_tls_with_a_ca_verifies_the_name(pair: tuple[Path, Path]) -> None:
    """Data wins over the file of the same name."""
    tls = TLSConfiguration(ca_data=pair[0].read_bytes(), ca_file="/does/not/exist", server_name="extender")
    await call(pair, tls)

    with pytest.raises(ExtenderError, match=r"(?i)certificate"):
        await call(pair, TLSConfiguration(ca_file=str(pair[0])))


async def test_tls_shows_a_client_certificate(pair: tuple[Path, Path]) -> None:
    """Without one, a server that wants it refuses the handshake."""
    certificate, key = pair
    ca = certificate.read_bytes()
    await call(
        pair,
        TLSConfiguration(ca_data=ca, server_name="extender", cert_file=str(certificate), key_data=key.read_bytes()),
        mutual=True,
    )

    with pytest.raises(ExtenderError):
        await call(pair, TLSConfiguration(ca_data=ca, server_name="extender"), mutual=True)


@pytest.mark.parametrize(
    "tls",
    [
        TLSConfiguration(insecure=True, ca_data=b"x"),
        TLSConfiguration(ca_file="/does/not/exist"),
        TLSConfiguration(ca_data=b"not PEM"),
        TLSConfiguration(insecure=True, cert_file="/does/not/exist", key_file="/does/not/exist"),
    ],
    ids=["insecure-with-ca", "no-ca-file", "broken-ca", "no-cert-file"],
)
def test_tls_that_cannot_work_is_a_configuration_error(tls: TLSConfiguration) -> None:
    """The error names the extender's URL."""
    with pytest.raises(ConfigurationError, match="https://x"):
        context_for(ExtenderConfiguration(url_prefix="https://x", tls=tls))
