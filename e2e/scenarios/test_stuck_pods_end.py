"""Pods that the kubelet turned away while the plugin was not there, and what becomes of them when it is back."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from clusters.api.api_client import Object
from clusters.api.resources import PODS, REPLICA_SETS
from clusters.api.waiting import eventually
from clusters.providers import Choices
from clusters.targets import Target
from e2e import spec
from e2e.builders import gpu_pod
from e2e.observer import Observer
from e2e.scenarios.observing import ObservedNamespace, open_observed, replica_set


@pytest_asyncio.fixture(loop_scope="session")
async def observed(
    request: pytest.FixtureRequest, target: Target, choices: Choices
) -> AsyncIterator[ObservedNamespace]:
    """A cluster of the case's own."""
    async with open_observed(request.config.getoption("--cluster"), target, choices) as found:
        yield found


async def bind(observer: Observer, pod: Object, node: str) -> None:
    """As an extender with an answer that arrives when the kubelet has just lost its plugin: card 0 of 14 units."""
    name = pod["metadata"]["name"]
    annotations = {
        spec.POD_INDEX: "0",
        spec.POD_DEVICE_UNITS: "14",
        spec.POD_UNITS: "2",
        spec.POD_ASSIGNED: "false",
        spec.POD_ASSUME_TIME: "1700000000000000000",
    }
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "annotations": annotations},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    await observer.cluster.api.request("POST", PODS.path(observer.namespace, name, "binding"), body=binding)


async def failed(observer: Observer, name: str) -> None:
    """Wait until the kubelet has turned it away."""

    async def status() -> Object:
        return dict((await observer.pod(name))["status"])

    seen = await eventually(status, lambda found: found.get("phase") == "Failed", f"{name} is turned away")
    assert seen["reason"] in ("UnexpectedAdmissionError", f"OutOf{spec.RESOURCE_MEMORY}")


@pytest.mark.stand_in_only("the metrics of a plugin in a pod are not on this machine's loopback")
async def test_controllers_pod_is_replaced_and_bare_one_only_reported(observed: ObservedNamespace) -> None:
    """Bound while the plugin was away: the ReplicaSet's is deleted and its successor runs, the bare one stays with the reason."""
    observer = observed.observer
    await observer.cluster.kill("device_plugin", "u1")
    await observer.create(gpu_pod("bare", 2, node="u1"), replica_set("web", gpu_pod("any", 2, node="u1")))

    async def owned() -> list[Object]:
        return [pod for pod in await observer.pods() if pod["metadata"].get("ownerReferences")]

    (first,) = await eventually(owned, lambda pods: len(pods) == 1, "the ReplicaSet makes its pod")
    for pod in (first, await observer.pod("bare")):
        await bind(observer, pod, "u1")
        await failed(observer, pod["metadata"]["name"])
    await observer.cluster.launch("device_plugin", "u1")

    def replaced(pods: list[Object]) -> bool:
        uids = [pod["metadata"]["uid"] for pod in pods]
        return uids != [first["metadata"]["uid"]] and [pod["status"].get("phase") for pod in pods] == ["Running"]

    (successor,) = await eventually(owned, replaced, "the failed pod is gone and its successor runs")
    await observer.check_right_cards(successor["metadata"]["name"])
    assert "it stays: no controller would replace it" in await observer.event_text("bare", "GPUShareUnadmitted")
    assert (await observer.pod("bare"))["status"]["phase"] == "Failed"
    text = await observer.event_text(first["metadata"]["name"], "GPUShareUnadmitted")
    assert "it is deleted so that ReplicaSet web replaces it" in text
    counted = await observed.values("u1", "gpushare_unadmitted_pods_total", "action")
    assert counted == {("reported",): 2, ("deleted",): 1}
    await observer.cluster.api.delete(REPLICA_SETS, "web", observer.namespace)
