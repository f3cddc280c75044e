"""Kubeconfig files as the providers write them: one cluster, one user, everything that is needed inside the file."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any, Final

import yaml

from clusters.api.certificates import KeyPair

# The name of the cluster, the user and the context in our files.
_NAME: Final = "gpushare"


def write(path: Path, url: str, *, ca: Path | None, token: str = "", client: KeyPair | None = None) -> Path:
    """Write a kubeconfig for ``url``; a reader never sees a part of the file. ``token`` or ``client`` are the credentials."""
    user: dict[str, Any] = {}
    if token:
        user["token"] = token
    if client is not None:
        user["client-certificate-data"] = _encoded(client.certificate)
        user["client-key-data"] = _encoded(client.key)
    cluster = {"server": url} if ca is None else {"server": url, "certificate-authority-data": _encoded(ca)}
    write_parts(path, cluster, user)
    return path


def write_parts(path: Path, cluster: dict[str, Any], user: dict[str, Any]) -> None:
    """Write a kubeconfig of these two parts as ``write`` does."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": _NAME,
        "clusters": [{"name": _NAME, "cluster": cluster}],
        "users": [{"name": _NAME, "user": user}],
        "contexts": [{"name": _NAME, "context": {"cluster": _NAME, "user": _NAME, "namespace": "default"}}],
    }
    put(path, yaml.safe_dump(document, sort_keys=False).encode())


def put(path: Path, content: bytes) -> None:
    """Write a file that only its owner may read; a reader sees the whole file or none."""
    partial = path.with_name(path.name + ".part")
    # No other user may have opened it before it was ours alone.
    partial.unlink(missing_ok=True)
    partial.touch(mode=0o600, exist_ok=False)
    partial.write_bytes(content)
    partial.rename(path)


def is_ours(path: Path) -> bool:
    """An empty file (of mktemp), or one as ``write`` makes it, which a cluster left that was killed."""
    try:
        document = yaml.safe_load(path.read_text()) or {"contexts": [{"name": _NAME}]}
        return [context["name"] for context in document["contexts"]] == [_NAME]
    except (OSError, UnicodeDecodeError, yaml.YAMLError, TypeError, KeyError):
        return False


def _encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
