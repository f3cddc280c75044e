"""Manifests that say only what matters to a case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Final

from e2e import spec

# The one image of the cases, which every kind of cluster has: a player of the demo's part, or of another that its
# variables name (clusters/images/README.md). Real kubelets run it as a program, ours imitate it.
PLAYER: Final = "cheyang/gpu-player:v2"
# The settings of a container's behaviour, as those variables without their prefix.
DEMO: Final[Mapping[str, object]] = {}
SLEEPS: Final[Mapping[str, object]] = {"HOLDS_MIB": 0}
JOB: Final[Mapping[str, object]] = {"HOLDS_MIB": 0, "EXITS_AFTER": 1}
ENDS_AT_ONCE: Final[Mapping[str, object]] = {"HOLDS_MIB": 0, "EXITS_AFTER": 0}
# A scheduler that is not there.
NO_SCHEDULER: Final = "nobody"


def gpu_container(name: str, units: object, plays: Mapping[str, object] = SLEEPS) -> dict[str, Any]:
    """A container that asks for card memory, as users write it: a limit."""
    container = plain_container(name, plays)
    return {**container, "resources": {"limits": {spec.RESOURCE_MEMORY: units}}}


def plain_container(name: str, plays: Mapping[str, object] = SLEEPS) -> dict[str, Any]:
    """A container that asks for nothing."""
    variables = [{"name": f"SIMULATED_{key}", "value": str(value)} for key, value in plays.items()]
    return {"name": name, "image": PLAYER, "env": variables}


def random_containers(rng: Random, units: Sequence[int], asks: float = 0.7) -> dict[str, Any]:
    """Containers of a pod, some of which ask for nothing: one to three, after init containers and sidecars."""

    def container(name: str) -> dict[str, Any]:
        return gpu_container(name, rng.choice(units)) if rng.random() < asks else plain_container(name)

    containers = [container(f"c{number}") for number in range(rng.randint(1, 3))]
    init = [container(f"i{number}") for number in range(rng.choice((0, 0, 1, 2, 3)))]
    for one in init:
        one |= {"restartPolicy": "Always"} if rng.random() < 0.5 else {}
    return {"containers": containers, "initContainers": init}


def gpu_pod(
    name: str,
    *units: object,
    node: str | None = None,
    plays: Mapping[str, object] = SLEEPS,
    bound_to: str | None = None,
    scheduler: str | None = None,
    annotations: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """A pod with one container for each amount; ``node`` by selector, ``bound_to`` past the scheduler."""
    containers = [gpu_container(f"c{number}", amount, plays) for number, amount in enumerate(units)]
    body: dict[str, Any] = {"containers": containers, "terminationGracePeriodSeconds": 1}
    if node is not None:
        body["nodeSelector"] = {"kubernetes.io/hostname": node}
    if bound_to is not None:
        body["nodeName"] = bound_to
    if scheduler is not None:
        body["schedulerName"] = scheduler
    metadata: dict[str, Any] = {"name": name} | ({} if annotations is None else {"annotations": dict(annotations)})
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body}


def with_slots(pod: dict[str, Any]) -> dict[str, Any]:
    """The pod, which now names a slot for each container that asks for card memory."""
    for one in (*pod["spec"]["containers"], *(pod["spec"].get("initContainers") or ())):
        if limits := one.get("resources", {}).get("limits"):
            limits[spec.RESOURCE_SLOT] = "1"
    return pod


def gated(pod: Mapping[str, Any]) -> dict[str, Any]:
    """The pod with a gate: a scheduler passes over it until the gate is gone."""
    return {**pod, "spec": {**pod["spec"], "schedulingGates": [{"name": "example.com/gate"}]}}


def controller(kind: str, name: str, spec: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """A controller of ``apps/v1`` whose pods have this spec; ``more`` are fields of the controller's own spec."""
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": spec}
    body = {"selector": {"matchLabels": labels}, "template": template, **more}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": body}


def booking(units: int, card: int, position: int = 0, device_units: int = 14) -> dict[str, str]:
    """The annotations that the extender writes with a Binding; ``position`` orders the assume times."""
    return {
        spec.POD_INDEX: str(card),
        spec.POD_UNITS: str(units),
        spec.POD_DEVICE_UNITS: str(device_units),
        spec.POD_ASSIGNED: "false",
        spec.POD_ASSUME_TIME: str(1_700_000_000_000_000_000 + position),
        spec.POD_EXTENDER: "gpushare/1",
    }


def binding(pod: str, node: str, **metadata: Any) -> dict[str, Any]:
    """The object that binds a pod to a node, with more of its metadata."""
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod, **metadata}, "target": target}
