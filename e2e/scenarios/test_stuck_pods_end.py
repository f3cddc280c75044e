"""Pods that the kubelet turned away while the plugin was not there, and what becomes of them when it is back."""

from __future__ import annotations

import pytest

from clusters.api.api_client import Object
from clusters.api.resources import NODES, REPLICA_SETS
from clusters.api.waiting import eventually
from e2e import spec
from e2e.builders import booking, controller, gpu_pod
from e2e.scenarios.conftest import ObservedNamespace


@pytest.mark.needs("unadmitted")
@pytest.mark.stand_in_only("the metrics of a plugin in a pod are not on this machine's loopback")
async def test_controllers_pod_is_replaced_and_bare_one_only_reported(observed: ObservedNamespace) -> None:
    """Bound while the plugin was away: the ReplicaSet's is deleted and its successor runs, the bare one stays with the reason."""
    observer = observed.observer
    await observer.cluster.kill("device_plugin", "u1")
    # The label comes after the loss. A scheduler that does not know of the loss yet has no node for these pods.
    await observer.shows("u1", "0")
    await observer.cluster.api.patch(NODES, "u1", {"metadata": {"labels": {"without": "plugin"}}})
    bare = gpu_pod("bare", 2, node="u1")
    bare["spec"]["nodeSelector"]["without"] = "plugin"
    await observer.create(bare, controller("ReplicaSet", "web", bare["spec"], replicas=1))

    async def owned() -> list[Object]:
        return [pod for pod in await observer.pods() if pod["metadata"].get("ownerReferences")]

    (first,) = await eventually(owned, lambda pods: len(pods) == 1, "the ReplicaSet makes its pod")
    for pod in (first, await observer.pod("bare")):
        # The answer of an extender comes when the kubelet has just lost its plugin.
        await observer.bind(pod["metadata"]["name"], "u1", annotations=booking(2, card=0))
        refused = await observer.reaches(pod["metadata"]["name"], "Failed")
        assert refused["status"]["reason"] in ("UnexpectedAdmissionError", f"OutOf{spec.RESOURCE_MEMORY}")
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
