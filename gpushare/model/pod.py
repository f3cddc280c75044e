"""What a pod requests, and whether its memory is still in use."""

from __future__ import annotations

from typing import Final

from gpushare import wire
from gpushare.manifests import Container, ContainerStatus, Pod
from gpushare.model.quantity import parse_units

_SIDECAR: Final = "Always"
_FINISHED: Final = ("Succeeded", "Failed")


def container_request(container: Container) -> int:
    """Units that one container asks for; the limit, as Kubernetes wants limit and request of such a resource equal.

    Raises InvalidQuantityError for ``1.5`` or ``-1``.
    """
    resources = container.resources
    if resources is None:
        return 0
    for amounts in (resources.limits, resources.requests):
        if amounts and wire.RESOURCE_MEMORY in amounts:
            return parse_units(amounts[wire.RESOURCE_MEMORY])
    return 0


def is_sidecar(container: Container) -> bool:
    """Is this init container one that goes on running beside the others (KEP-753)?"""
    return container.restart_policy == _SIDECAR


def pod_request(pod: Pod) -> int:
    """Units that the pod holds at its worst moment: the scheduler's own rule for requests.

    Ordinary init containers run one after the other, each beside the sidecars started before it; then all containers
    run beside all sidecars. Raises InvalidQuantityError.
    """
    sidecars = 0
    worst = 0
    for container in pod.spec.init_containers or ():
        request = container_request(container)
        if is_sidecar(container):
            sidecars += request
            worst = max(worst, sidecars)
        else:
            worst = max(worst, sidecars + request)
    return max(worst, sidecars + sum(container_request(container) for container in pod.spec.containers or ()))


def gpu_containers(pod: Pod) -> tuple[tuple[str, int], ...]:
    """``(name, units)`` of the containers that ask for card memory, in a kubelet's order of allocation: init first."""
    ordered = [*(pod.spec.init_containers or ()), *(pod.spec.containers or ())]
    requests = ((container.name, container_request(container)) for container in ordered)
    return tuple((name, request) for name, request in requests if request > 0)


def is_finished(pod: Pod) -> bool:
    """Has the pod ended with all its containers gone, so that its memory is free?

    A phase alone is not enough: older kubelets say ``Failed`` at an eviction while the processes still run. A pod
    that is being deleted is not finished: its containers use the card until the kubelet has stopped them (defect D15
    of the original).
    """
    status = pod.status
    if status is None or status.phase not in _FINISHED:
        return False
    return not any(map(_is_running, [*(status.container_statuses or ()), *(status.init_container_statuses or ())]))


def _is_running(status: ContainerStatus) -> bool:
    return status.state is not None and status.state.running is not None


def is_deleting(pod: Pod) -> bool:
    """Has somebody asked for the pod's deletion?"""
    return pod.metadata.deletion_timestamp is not None
