"""Pods of every shape: init containers, sidecars, bound by hand, from a DaemonSet."""

from __future__ import annotations

from typing import Any

import pytest

from clusters.api.api_client import Object
from clusters.api.resources import DAEMON_SETS, PODS
from clusters.api.waiting import eventually
from e2e import spec
from e2e.builders import ENDS_AT_ONCE, booking, controller, gpu_container, gpu_pod, plain_container
from e2e.observer import Observer


def with_init(name: str, *units: object, init: object = None, sidecar: object = None, node: str) -> dict[str, Any]:
    """A pod with an init container that ends immediately, or a sidecar, or both."""
    pod = gpu_pod(name, *units, node=node)
    containers = []
    if init is not None:
        containers.append(gpu_container("init", init, ENDS_AT_ONCE))
    if sidecar is not None:
        containers.append({**gpu_container("sidecar", sidecar), "restartPolicy": "Always"})
    pod["spec"]["initContainers"] = containers
    return pod


@pytest.mark.promise("DP-013")
@pytest.mark.promise("D21")
async def test_an_init_container_that_asks_for_more(observer: Observer) -> None:
    """Defect D21: the pod is booked with the larger request, its init container's, and runs on one card."""
    await observer.create(
        with_init("p", 2, init=5, node="a2"), gpu_pod("beside", 9, node="a2"), gpu_pod("third", 9, node="a2")
    )
    await observer.running("p", "beside")

    (pod, _) = await observer.check_right_cards("p", "beside")
    assert pod["metadata"]["annotations"][spec.POD_UNITS] == "5"
    await observer.check_books()
    # 14 + 14 units: 5 + 9 on one card, 9 on the other.
    await observer.running("third")


@pytest.mark.promise("DP-014")
@pytest.mark.promise("D21")
async def test_a_sidecar_beside_its_containers(observer: Observer) -> None:
    """Defect D21: it has units of its own on the pod's card, and is booked."""
    await observer.run(with_init("p", 2, 3, sidecar=4, node="a2"))

    (pod,) = await observer.check_right_cards("p")
    assert pod["metadata"]["annotations"][spec.POD_UNITS] == "9"
    told = await observer.variables(pod)
    assert [one[spec.ENV_CONTAINER_UNITS] for one in told] == ["4", "2", "3"]
    await observer.check_books()


@pytest.mark.promise("D22")
async def test_a_pod_bound_by_hand(observer: Observer) -> None:
    """Defect D22: a card is chosen on the node, all five annotations are written, and the extender counts it."""
    await observer.run(gpu_pod("by-hand", 9, bound_to="a2"))

    (pod,) = await observer.check_right_cards("by-hand")
    written = pod["metadata"]["annotations"]
    names = (spec.POD_INDEX, spec.POD_UNITS, spec.POD_DEVICE_UNITS, spec.POD_ASSIGNED, spec.POD_ASSUME_TIME)
    assert all(name in written for name in names)
    await observer.run(gpu_pod("scheduled", 9, node="a2"))
    (scheduled,) = await observer.check_right_cards("scheduled")
    assert scheduled["metadata"]["annotations"][spec.POD_INDEX] != written[spec.POD_INDEX]
    await observer.check_books()


@pytest.mark.needs("by-hand")
async def test_a_pod_bound_by_hand_to_a_full_node_does_not_run(observer: Observer) -> None:
    """The last guard: 9 + 9 are on two cards of 14; 8 more would fit in total, and on no card. It fails."""
    await observer.run(gpu_pod("one", 9, node="a2"), gpu_pod("two", 9, node="a2"))
    await observer.create(gpu_pod("by-hand", 8, bound_to="a2"))

    await observer.reaches("by-hand", "Failed")
    await observer.check_all("one", "two")


async def test_annotations_written_by_hand_over_book_no_card(observer: Observer) -> None:
    """If a card is over-booked in the API, no container starts on it without room."""
    await observer.run(gpu_pod("rightful", 9, node="a1"))
    await observer.create(gpu_pod("liar", 9, bound_to="a1", annotations=booking(9, card=0)))

    await observer.reaches("liar", "Failed")
    await observer.check_right_cards("rightful")


@pytest.mark.promise("D05")
async def test_a_daemon_sets_pods(observer: Observer) -> None:
    """One on each GPU node, by the scheduler or past it; each on a card of its node, all counted."""
    pod = {"containers": [gpu_container("main", 2)], "nodeSelector": {"gpushare": "true"}}
    await observer.create(controller("DaemonSet", "d", pod))
    nodes = {node for node, cards in (await observer.sizes()).items() if cards}

    def run_everywhere(pods: list[Object]) -> bool:
        return {pod["spec"].get("nodeName") for pod in pods if pod["status"].get("phase") == "Running"} == nodes

    try:
        await eventually(observer.pods, run_everywhere, "one runs on each node")
        await observer.check_all(*(pod["metadata"]["name"] for pod in await observer.pods()))
    finally:
        await observer.cluster.api.delete(DAEMON_SETS, "d", observer.namespace)


async def test_a_pod_without_card_memory_is_left_alone(observer: Observer) -> None:
    """No annotation, no variables; it sees no card."""
    plain = gpu_pod("plain", node="a1")
    plain["spec"]["containers"] = [plain_container("c0")]
    (pod,) = await observer.run(plain)

    assert spec.POD_INDEX not in (pod["metadata"].get("annotations") or {})
    log = await observer.cluster.api.text(PODS.path(observer.namespace, "plain", "log"), {"container": "c0"})
    assert spec.ENV_VISIBLE not in log
