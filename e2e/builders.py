"""Manifests that say only what matters to a case."""

from __future__ import annotations

from typing import Any

from e2e import spec

PLAYER = "cheyang/gpu-player:v2"
SLEEPER = "registry.k8s.io/pause:3.10"


def gpu_container(name: str, units: object, image: str = SLEEPER) -> dict[str, Any]:
    """A container that asks for card memory, as users write it: a limit."""
    return {"name": name, "image": image, "resources": {"limits": {spec.RESOURCE_MEMORY: units}}}


def gpu_pod(
    name: str, *units: object, node: str | None = None, image: str = SLEEPER, bound_to: str | None = None
) -> dict[str, Any]:
    """A pod with one container for each amount; ``node`` by selector, ``bound_to`` past the scheduler."""
    containers = [gpu_container(f"c{number}", amount, image) for number, amount in enumerate(units)]
    body: dict[str, Any] = {"containers": containers, "terminationGracePeriodSeconds": 1}
    if node is not None:
        body["nodeSelector"] = {"kubernetes.io/hostname": node}
    if bound_to is not None:
        body["nodeName"] = bound_to
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": body}
