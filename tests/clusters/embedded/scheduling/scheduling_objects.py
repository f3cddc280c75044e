"""Nodes and pods for the tests of the embedded scheduler, as small as the API allows."""

from __future__ import annotations

from typing import Any

MEMORY = "aliyun.com/gpu-mem"


def make_node(name: str = "n1", allocatable: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    amounts = {"cpu": "8", "memory": "32Gi", "pods": "110", **(allocatable or {})}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": {"kubernetes.io/hostname": name}},
        "spec": spec,
        "status": {"allocatable": amounts},
    }


def make_pod(name: str = "p1", limits: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {
            "containers": [{"name": "main", "image": "none", "resources": {"limits": limits or {}}}],
            "schedulerName": "default-scheduler",
            **spec,
        },
        "status": {"phase": "Pending"},
    }
