"""Promises of clusters.kind.kind_cluster without a cluster."""

from __future__ import annotations

import base64
from pathlib import Path

import yaml

from clusters.api import kubeconfig_file
from clusters.kind.kind_cluster import adopt


def test_kinds_kubeconfig_becomes_one_of_ours(tmp_path: Path) -> None:
    """The copy keeps the server, authority and user of kind's kubeconfig, and is recognised as one of ours."""
    server = {"server": "https://127.0.0.1:6", "certificate-authority-data": base64.b64encode(b"CA").decode()}
    document = {
        "clusters": [{"name": "kind-gpushare-1", "cluster": server}],
        "users": [{"name": "kind-gpushare-1", "user": {"client-certificate-data": "x"}}],
        "contexts": [{"name": "kind-gpushare-1", "context": {}}],
    }
    (tmp_path / "kind").write_text(yaml.safe_dump(document))
    found = adopt(tmp_path / "kind", tmp_path / "kubeconfig")
    written = yaml.safe_load(found.read_text())

    assert kubeconfig_file.is_ours(found)
    assert found.stat().st_mode & 0o077 == 0
    assert written["clusters"][0]["cluster"] == server
    assert written["users"][0]["user"] == {"client-certificate-data": "x"}
