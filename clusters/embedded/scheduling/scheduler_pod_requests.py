"""A pod's requests to a node, and the node that it is on."""

from __future__ import annotations

from collections.abc import Iterable

from clusters.api_client import Object
from clusters.embedded.scheduling.scheduler_quantities import amounts

Amounts = dict[str, int]
# The resources that scores look at, and the requests of a container that has none there, so that such pods spread.
COUNTED = {"cpu": "100m", "memory": str(200 * 1024 * 1024)}


def uid_of(pod: Object) -> str:
    """The identity of a pod: a re-created pod of the same name is another one."""
    return str(pod["metadata"]["uid"])


def full_name(pod: Object) -> str:
    """``namespace/name``."""
    return f"{pod['metadata'].get('namespace', 'default')}/{pod['metadata']['name']}"


def node_of(pod: Object) -> str:
    """The node that the pod is bound to, or the empty string."""
    return pod["spec"].get("nodeName") or ""


def priority_of(pod: Object) -> int:
    """How important the pod is; higher goes first."""
    return int(pod["spec"].get("priority") or 0)


def nominated_node_of(pod: Object) -> str:
    """The node that preemption has chosen for the pod, or the empty string."""
    return (pod.get("status") or {}).get("nominatedNodeName") or ""


def is_terminal(pod: Object) -> bool:
    """Whether the pod has ended for good and needs nothing any more."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def is_being_deleted(pod: Object) -> bool:
    """Has a client asked to delete the pod?"""
    return bool(pod["metadata"].get("deletionTimestamp"))


def is_gated(pod: Object) -> bool:
    """Whether scheduling gates still hold the pod back."""
    return bool(pod["spec"].get("schedulingGates"))


def requests_of(pod: Object) -> Amounts:
    """The pod's requests by resource, cpu in thousandths.

    Containers add up. An ordinary init container runs alone, so the largest counts; a restartable one (a sidecar) stays
    and adds to everything that starts after it. A limit without a request is a request, as the API server defaults it.
    """
    running = total(container_requests(each) for each in pod["spec"].get("containers") or [])
    sidecars: Amounts = {}
    starting: Amounts = {}
    for container in pod["spec"].get("initContainers") or []:
        own = container_requests(container)
        if container.get("restartPolicy") == "Always":
            running = total((running, own))
            sidecars = total((sidecars, own))
        else:
            starting = largest(starting, total((own, sidecars)))
    return total((largest(running, starting), amounts(pod["spec"].get("overhead"))))


def container_requests(container: Object) -> Amounts:
    """One container's requests, completed from its limits."""
    resources = container.get("resources") or {}
    return amounts({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def total(parts: Iterable[Amounts]) -> Amounts:
    """The sum by resource."""
    result: Amounts = {}
    for part in parts:
        for name, value in part.items():
            result[name] = result.get(name, 0) + value
    return result


def largest(one: Amounts, other: Amounts) -> Amounts:
    """The larger value by resource."""
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in {**one, **other}}


def counted_of(pod: Object) -> Amounts:
    """The pod's requests of cpu and memory as scores count them."""
    spec = pod["spec"]
    filled = {key: [with_defaults(each) for each in spec.get(key) or []] for key in ("containers", "initContainers")}
    return requests_of({**pod, "spec": {**spec, **filled}})


def with_defaults(container: Object) -> Object:
    """A container that asks for cpu and memory, and for nothing else."""
    resources = container.get("resources") or {}
    asked = {**COUNTED, **(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {**container, "resources": {"requests": {name: asked[name] for name in COUNTED}}}
