"""Kubeconfigs of a kind cluster: the administrator's under our name, and what one of an account needs."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path

import yaml

from clusters.api import kubeconfig_file


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
    ca = path.with_name("ca.pem")
    ca.write_bytes(base64.b64decode(cluster["cluster"]["certificate-authority-data"]))
    kubeconfig_file.write_parts(path, cluster["cluster"], user["user"])
    return ApiServer(str(cluster["cluster"]["server"]), ca, path)
