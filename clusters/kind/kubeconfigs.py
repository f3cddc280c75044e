"""Kubeconfigs of a kind cluster: the administrator's under our name, and what one of an account needs."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from clusters.api import kubeconfig_file as kubeconfig

# As in the files of the other providers.
_NAME: Final = "gpushare"


@dataclass(frozen=True, slots=True)
class ApiServer:
    """Where it is, the file of the authority that it shows, and an administrator's kubeconfig."""

    url: str
    ca: Path
    kubeconfig: Path


def adopt(written_by_kind: Path, path: Path) -> ApiServer:
    """Write kind's kubeconfig to ``path`` as our providers have theirs; a reader sees the whole file or none."""
    document = yaml.safe_load(written_by_kind.read_text())
    (cluster,), (user,) = document["clusters"], document["users"]
    adopted = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": _NAME,
        "clusters": [{"name": _NAME, "cluster": cluster["cluster"]}],
        "users": [{"name": _NAME, "user": user["user"]}],
        "contexts": [{"name": _NAME, "context": {"cluster": _NAME, "user": _NAME, "namespace": "default"}}],
    }
    ca = path.with_name("ca.pem")
    ca.write_bytes(base64.b64decode(cluster["cluster"]["certificate-authority-data"]))
    kubeconfig.put(path, yaml.safe_dump(adopted, sort_keys=False).encode())
    return ApiServer(str(cluster["cluster"]["server"]), ca, path)
