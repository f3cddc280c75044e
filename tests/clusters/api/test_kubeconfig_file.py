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
