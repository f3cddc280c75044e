"""Kubeconfig files as the providers write them: one cluster, one user, everything that is needed inside the file."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import yaml

from clusters.certificates import KeyPair


def write(path: Path, url: str, *, ca: Path | None, token: str = "", client: KeyPair | None = None) -> Path:
    """Write a kubeconfig for ``url``; whoever sees the file sees it whole. ``token`` or ``client`` says who one is."""
    user: dict[str, Any] = {}
    if token:
        user["token"] = token
    if client is not None:
        user["client-certificate-data"] = _encoded(client.certificate)
        user["client-key-data"] = _encoded(client.key)
    cluster = {"server": url} if ca is None else {"server": url, "certificate-authority-data": _encoded(ca)}
    name = "gpushare"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": "default"}}],
    }
    partial = path.with_name(path.name + ".part")
    partial.touch(mode=0o600)
    partial.write_text(yaml.safe_dump(document, sort_keys=False))
    partial.rename(path)
    return path


def _encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
