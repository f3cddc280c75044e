"""Promises of clusters.api.certificates, judged by the TLS library that everything here uses."""

from __future__ import annotations

import asyncio
import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from clusters.api.certificates import Authority, KeyPair


def subject(pair: KeyPair) -> dict[str, list[str]]:
    """The names in a certificate that Kubernetes reads."""
    certificate = x509.load_pem_x509_certificate(pair.certificate.read_bytes())
    return {
        name: [str(attribute.value) for attribute in certificate.subject.get_attributes_for_oid(oid)]
        for name, oid in (("user", NameOID.COMMON_NAME), ("groups", NameOID.ORGANIZATION_NAME))
    }


async def shake_hands(server: KeyPair, trusted: Path, client: KeyPair | None) -> dict[str, Any]:
    """The server's view of a client's certificate after a handshake. Raises ssl.SSLError."""
    seen: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(trusted))
    serving.load_cert_chain(server.certificate, server.key)
    serving.verify_mode = ssl.CERT_OPTIONAL
    context = ssl.create_default_context(cafile=str(trusted))
    if client is not None:
        context.load_cert_chain(client.certificate, client.key)

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.set_result(writer.get_extra_info("peercert"))
        writer.close()

    listening = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=serving)
    async with listening:
        port = listening.sockets[0].getsockname()[1]
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        peer = await seen
        writer.close()
        await writer.wait_closed()
    return dict(peer or {})


async def test_server_and_client_of_one_authority_trust_each_other(tmp_path: Path) -> None:
    """The server is known by its address, the client by its name."""
    authority = Authority(tmp_path)
    server = authority.issue_server("server", ("127.0.0.1", "localhost"))
    client = authority.issue_client("system:node:a1", "system:nodes")

    assert await shake_hands(server, authority.ca, client)
    assert subject(client) == {"user": ["system:node:a1"], "groups": ["system:nodes"]}


@pytest.mark.filterwarnings("ignore:Attribute's length")
async def test_a_users_name_may_be_as_long_as_a_nodes(tmp_path: Path) -> None:
    """X.509 ends a common name at 64 characters, Kubernetes does not; the files have shorter names."""
    authority, user = Authority(tmp_path), f"system:node:{'a' * 253}"
    server, client = authority.issue_server("server", ("127.0.0.1",)), authority.issue_client(user, "system:nodes")

    assert await shake_hands(server, authority.ca, client)
    assert subject(client) == {"user": [user], "groups": ["system:nodes"]}


async def test_a_server_of_another_authority_is_not_trusted(tmp_path: Path) -> None:
    """Two clusters of one machine never mistake each other."""
    (tmp_path / "other").mkdir()
    server = Authority(tmp_path).issue_server("server", ("127.0.0.1",))
    with pytest.raises(ssl.SSLCertVerificationError):
        await shake_hands(server, Authority(tmp_path / "other").ca, None)


def test_a_certificate_may_be_expired(tmp_path: Path) -> None:
    """An authority can issue an expired certificate, for cases that want one."""
    pair = Authority(tmp_path).issue_client("late", expires=datetime(2001, 1, 1, tzinfo=UTC))
    certificate = x509.load_pem_x509_certificate(pair.certificate.read_bytes())

    assert certificate.not_valid_after_utc == datetime(2001, 1, 1, tzinfo=UTC)


def test_keys_are_the_owners_alone(tmp_path: Path) -> None:
    """Mode 600."""
    pair = Authority(tmp_path).issue_client("someone")

    assert pair.key.stat().st_mode & 0o777 == 0o600
