"""Certificates for a cluster of one test run: its own authority, and what that issues. Made by trustme, as keys of tests."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

import trustme
from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from cryptography.x509.oid import NameOID

from clusters.file_names import file_name

# Go refuses a certificate with an empty list of names; a client has no host of its own.
_NO_HOST: Final = "client.invalid"
# trustme names itself if no organization is given, and an organization is a group.
_NO_GROUP: Final = "gpushare:clients"


@dataclass(frozen=True, slots=True)
class KeyPair:
    """Files in PEM: a certificate with its chain, and its private key."""

    certificate: Path
    key: Path


class Authority:
    """A certificate authority with its files in one folder; ``ca`` is its own certificate."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._authority = trustme.CA()
        self.ca = folder / "ca.pem"
        self._authority.cert_pem.write_to_path(str(self.ca))

    def issue_server(self, name: str, hosts: Sequence[str]) -> KeyPair:
        """A certificate for a server at these host names and addresses."""
        return self._write(name, self._authority.issue_cert(*hosts, common_name=name))

    def issue_client(self, user: str, group: str | None = None, *, expires: datetime | None = None) -> KeyPair:
        """A certificate that makes its holder this user (common name) of this group (organization) to Kubernetes."""
        issued = self._authority.issue_cert(_NO_HOST, not_after=expires)
        return self._write(user.replace(":", "-"), issued, self._renamed(issued, user, group or _NO_GROUP))

    def _renamed(self, issued: trustme.LeafCert, user: str, group: str) -> bytes:
        """The certificate with another subject. The common name may be longer than 64 characters: Kubernetes reads it with Go."""
        old = x509.load_pem_x509_certificate(issued.cert_chain_pems[0].bytes())
        names = (NameOID.COMMON_NAME, user), (NameOID.ORGANIZATION_NAME, group)
        with warnings.catch_warnings(action="ignore", category=UserWarning):
            subject = x509.Name([x509.NameAttribute(oid, text, _validate=False) for oid, text in names])
        made = x509.CertificateBuilder(
            old.issuer, subject, old.public_key(), old.serial_number, old.not_valid_before_utc, old.not_valid_after_utc
        )
        for each in old.extensions:
            made = made.add_extension(each.value, each.critical)
        key = load_pem_private_key(self._authority.private_key_pem.bytes(), None)
        return made.sign(key, SHA256()).public_bytes(Encoding.PEM)  # type: ignore[arg-type]  # a key of trustme can sign

    def _write(self, name: str, issued: trustme.LeafCert, certificate: bytes = b"") -> KeyPair:
        name = file_name(name)
        pair = KeyPair(self._folder / f"{name}.pem", self._folder / f"{name}.key")
        pair.certificate.write_bytes(certificate or b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        pair.key.touch(mode=0o600)
        pair.key.write_bytes(issued.private_key_pem.bytes())
        return pair
