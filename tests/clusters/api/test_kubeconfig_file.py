"""Promises of clusters.api.kubeconfig_file, judged by the library that reads kubeconfigs."""

from __future__ import annotations

from pathlib import Path

from lightkube.config.kubeconfig import KubeConfig

from clusters.api import kubeconfig_file
from clusters.api.certificates import Authority


def test_a_token_and_the_authority_are_inside(tmp_path: Path) -> None:
    """One file is all that a program needs."""
    authority = Authority(tmp_path)
    path = kubeconfig_file.write(tmp_path / "k", "https://127.0.0.1:1", ca=authority.ca, token="secret")
    config = KubeConfig.from_file(path).get()

    assert config is not None
    assert (config.cluster.server, config.user and config.user.token) == ("https://127.0.0.1:1", "secret")
    assert config.cluster.certificate_auth_data
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_client_certificate_is_inside(tmp_path: Path) -> None:
    """The file holds the client certificate and its key."""
    authority = Authority(tmp_path)
    client = authority.issue_client("admin", "system:masters")
    config = KubeConfig.from_file(
        kubeconfig_file.write(tmp_path / "k", "https://h:1", ca=authority.ca, client=client)
    ).get()

    assert config is not None
    assert config.user is not None
    assert config.user.client_cert_data
    assert config.user.client_key_data


def test_no_part_of_a_file_is_ever_seen(tmp_path: Path) -> None:
    """The file is moved into place, and no partial file is left beside it."""
    kubeconfig_file.write(tmp_path / "k", "http://127.0.0.1:1", ca=None)

    assert [path.name for path in tmp_path.iterdir()] == ["k"]
