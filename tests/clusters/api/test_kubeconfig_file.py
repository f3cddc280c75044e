"""Promises of clusters.api.kubeconfig_file."""

from __future__ import annotations

from pathlib import Path

from clusters.api import kubeconfig_file
from clusters.api.certificates import Authority
from clusters.api.cluster_access import access, merged


def test_a_token_and_the_authority_are_inside(tmp_path: Path) -> None:
    """One file is all that a program needs."""
    authority = Authority(tmp_path)
    path = kubeconfig_file.write(tmp_path / "k", "https://127.0.0.1:1", ca=authority.ca, token="secret")
    found = merged([path])

    assert found["users"]["gpushare"] == {"token": "secret"}
    assert access([path]).url == "https://127.0.0.1:1"
    assert found["clusters"]["gpushare"]["certificate-authority-data"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_client_certificate_is_inside(tmp_path: Path) -> None:
    """The file holds the client certificate and its key."""
    authority = Authority(tmp_path)
    client = authority.issue_client("admin", "system:masters")
    path = kubeconfig_file.write(tmp_path / "k", "https://h:1", ca=authority.ca, client=client)
    tls = access([path]).tls

    assert tls is not None
    assert {*merged([path])["users"]["gpushare"]} == {"client-certificate-data", "client-key-data"}


def test_no_part_of_a_file_is_ever_seen(tmp_path: Path) -> None:
    """The file is moved into place, and no partial file is left beside it."""
    kubeconfig_file.write(tmp_path / "k", "http://127.0.0.1:1", ca=None)

    assert [path.name for path in tmp_path.iterdir()] == ["k"]
