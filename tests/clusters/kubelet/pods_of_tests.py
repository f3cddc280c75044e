"""Pod objects as an API server would show them."""

from __future__ import annotations

from typing import Any

from tests.clusters.kubelet.small_plugin import RESOURCE


def container(name: str, amount: int = 0, *, image: str = "unknown/app:1", **more: Any) -> dict[str, Any]:
    limits = {"limits": {RESOURCE: str(amount)}} if amount else {}
    return {"name": name, "image": image, "resources": limits, **more}


def pod(name: str, *containers: dict[str, Any], inits: tuple[dict[str, Any], ...] = (), **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {"nodeName": "n1", "containers": list(containers), "initContainers": list(inits), **spec},
    }
