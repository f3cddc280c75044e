"""The devices of each container, through restarts of everything: the node tests of Kubernetes for device plugins (DP-022)."""

from __future__ import annotations

import time

import pytest

from clusters.api.resources import NODES
from clusters.api.waiting import eventually
from e2e.kubelet.node_under_test import NodeUnderTest
from e2e.kubelet.sample_plugin import healthy

# Ends with an error once a second and restarts immediately, with its variables in its log.
_ENV_AND_FAIL = ["sh", "-c", "env; sleep 0.3; exit 1"]


@pytest.mark.promise("DP-022")
async def test_can_schedule_a_pod_that_requires_a_device(stage: NodeUnderTest) -> None:
    """A scheduled pod gets the devices that PodResources names, and the next pod that asks for one is rejected."""
    await stage.serve(2)
    await stage.create(
        "first", stage.container(devices=2), nodeName=None, nodeSelector={"kubernetes.io/hostname": stage.node}
    )
    pod = await stage.reaches("first", "Running")

    assert pod["spec"]["nodeName"] == stage.node
    assert await stage.told_ids("first") == (await stage.held())["first", "main"] == set(healthy(2))
    await stage.create("second", stage.container(devices=1))
    rejected = await stage.reaches("second", "Failed")
    assert rejected["status"]["reason"] == "UnexpectedAdmissionError"
    assert (
        f"requested number of devices unavailable for {stage.resource}. Requested: 1, Available: 0"
        in (rejected["status"]["message"])
    )


@pytest.mark.promise("DP-022")
async def test_keeps_assignments_across_pod_and_plugin_restarts(stage: NodeUnderTest) -> None:
    """A container that starts again has the ids of its one Allocate, also after its plugin was away, and devices unhealthy."""
    plugin = await stage.serve(5, pre_start=True)
    await stage.create("p", stage.container(devices=2, command=_ENV_AND_FAIL))
    await stage.restarts("p", 1)
    ids = (await stage.held())["p", "main"]
    await plugin.stop()
    await stage.counts(5, 0)
    await stage.plug(plugin)
    await stage.counts(5, 5)
    await stage.restarts("p", 2)
    await stage.holds("p", ids)

    assert len(plugin.asked("PreStartContainer")) >= 3
    assert [set(one) for one in plugin.asked("Allocate")] == [ids]
    assert await stage.told_ids("p") == ids


@pytest.mark.promise("DP-022", "G3-09", "G3-10", "G3-13")
async def test_keeps_device_plugin_assignments_across_kubelet_restarts(stage: NodeUnderTest) -> None:
    """A pod keeps its devices over a restart, which removes the plugin's socket and zeroes its resource alone."""
    plugin = await stage.serve(2)
    opaque = {"status": {"capacity": {"example.com/opaque": "163840"}}}
    await stage.api.patch(NODES, stage.node, opaque, subresource="status")
    before = await stage.run("p", stage.container(devices=1))
    ids = (await stage.held())["p", "main"]
    await stage.restart()

    assert not plugin.socket.exists()
    await stage.counts(0, 0)
    await stage.holds("p", ids)
    await stage.plug(plugin)
    await stage.counts(2, 2)
    await stage.run("q", stage.container(devices=1))
    after = await stage.pod("p")
    assert (
        after["status"]["containerStatuses"][0]["containerID"]
        == before["status"]["containerStatuses"][0]["containerID"]
    )
    assert (await stage.held())["q", "main"] == set(healthy(2)) - ids
    status = (await stage.api.get(NODES, stage.node))["status"]
    assert status["allocatable"]["example.com/opaque"] == status["capacity"]["example.com/opaque"] == "163840"


@pytest.mark.promise("DP-022")
async def test_a_succeeded_pod_is_not_admitted_again(stage: NodeUnderTest) -> None:
    """A pod that has succeeded stays Succeeded, without a warning, if the kubelet restarts without the plugin."""
    plugin = await stage.serve(2)
    await stage.create("p", stage.container(devices=1, command=["true"]), restartPolicy="Never")
    await stage.reaches("p", "Succeeded")
    await plugin.stop()
    await stage.restart()
    await stage.run("later", stage.container())

    assert (await stage.pod("p"))["status"]["phase"] == "Succeeded"
    assert await stage.warnings("p") == []


@pytest.mark.promise("DP-022")
async def test_orphaned_pods_are_cleaned_up(stage: NodeUnderTest) -> None:
    """A pod deleted while the kubelet is down gives its devices back, by force or with grace."""
    plugin = await stage.serve(2)
    await stage.create("forced", stage.container(devices=1))
    await stage.create("graceful", stage.container(devices=1))
    await stage.reaches("forced", "Running")
    await stage.reaches("graceful", "Running")
    await stage.kubelet.stop()
    await stage.delete("forced", grace_seconds=0)
    await stage.delete("graceful", grace_seconds=1)
    await stage.kubelet.start()
    await stage.plug(plugin)
    await stage.counts(2, 2)
    await stage.is_gone("graceful")
    await stage.run("next", stage.container(devices=2))

    assert await stage.held() == {("next", "main"): set(healthy(2))}


@pytest.mark.promise("DP-022", "G3-08")
async def test_sidecar_keeps_its_device_and_init_container_hands_over(stage: NodeUnderTest) -> None:
    """A sidecar takes over its init container's id, the app gets another, and all Allocates come first."""
    plugin = await stage.serve(2, pre_start=True)
    inits = [stage.container("init", 1, command=["true"]), stage.container("sidecar", 1, restartPolicy="Always")]
    await stage.run("p", stage.container("app", 1), initContainers=inits)

    held = await stage.held()
    assert held.keys() == {("p", "sidecar"), ("p", "app")}
    assert held["p", "sidecar"].isdisjoint(held["p", "app"])
    assert [set(ids) for ids in plugin.asked("Allocate")] == [
        held["p", "sidecar"],
        held["p", "sidecar"],
        held["p", "app"],
    ]
    verbs = [verb for verb, _ in plugin.calls if verb in ("Allocate", "PreStartContainer")]
    assert verbs == ["Allocate"] * 3 + ["PreStartContainer"] * 3


@pytest.mark.promise("DP-022")
async def test_after_a_reboot_pods_that_come_before_the_plugin_fail(stage: NodeUnderTest) -> None:
    """A pod with devices fails admission after a reboot if the plugin is not yet back."""
    await stage.serve(1)
    await stage.run("p", stage.container(devices=1))
    await stage.kubelet.reboot()
    pod = await stage.reaches("p", "Failed")

    assert pod["status"]["reason"] == "UnexpectedAdmissionError"
    assert "no healthy devices present" in pod["status"]["message"]


async def test_the_grace_of_a_deletion_is_given(stage: NodeUnderTest) -> None:
    """A container that takes its time is there, and keeps its device, until its grace ends: the one that its stop began with.

    A kubelet (1.36.3, ``SyncTerminatingPod``) does not interrupt a stop for a shorter grace that is asked for later.
    """
    await stage.serve(1)
    slow = {"name": "SIMULATED_STOP_SECONDS", "value": "600"}
    await stage.run("p", stage.container(devices=1, env=[slow]), terminationGracePeriodSeconds=10)
    begun = time.monotonic()
    await stage.delete("p")
    # A kubelet that has not begun takes the shorter grace.
    await eventually(lambda: stage.log("p"), lambda log: "asked to stop" in log, "its stop has begun")

    # A pod that asks for its device in between is turned away.
    await stage.create("q", stage.container(devices=1))
    await stage.reaches("q", "Failed")
    pod = await stage.pod("p")
    assert "deletionTimestamp" in pod["metadata"]
    assert {one["type"]: one["status"] for one in pod["status"]["conditions"]}["Ready"] == "True"
    assert (await stage.held())["p", "main"] == set(healthy(1))
    await stage.delete("p", grace_seconds=1)
    await stage.is_gone("p")
    assert time.monotonic() - begun >= 10
