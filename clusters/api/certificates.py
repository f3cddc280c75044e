"""Certificates for a cluster of one test run: its own authority, and what that issues. Made by trustme, as keys of tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

import trustme

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
        name = user.replace(":", "-")
        group = group or _NO_GROUP
        issued = self._authority.issue_cert(_NO_HOST, common_name=user, organization_name=group, not_after=expires)
        return self._write(name, issued)

    def _write(self, name: str, issued: trustme.LeafCert) -> KeyPair:
        pair = KeyPair(self._folder / f"{name}.pem", self._folder / f"{name}.key")
        pair.certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        pair.key.touch(mode=0o600)
        pair.key.write_bytes(issued.private_key_pem.bytes())
        return pair
