"""The status of a node and its pods when devices or their plugin fail: the node tests of Kubernetes (DP-022)."""

from __future__ import annotations

import grpc.aio
import pytest

from clusters.api.api_client import ApiError
from clusters.api.waiting import eventually
from clusters.kubelet.machine import Timings
from e2e.kubelet.node_under_test import NodeUnderTest
from e2e.kubelet.sample_plugin import SamplePlugin, healthy

# A real kubelet's from the end of a list to a capacity of 0, and a minute more.
GRACE_SECONDS = 360.0


async def health_of(stage: NodeUnderTest, name: str) -> list[dict[str, str]]:
    """The pod's status of its container's devices."""
    statuses = (await stage.pod(name))["status"].get("containerStatuses") or [{}]
    found = {one["name"]: one["resources"] for one in statuses[0].get("allocatedResourcesStatus") or ()}
    return list(found.get(stage.resource, []))


def shown(stage: NodeUnderTest, health: str) -> list[dict[str, str]]:
    """The right status of the one device: older kubelets report nothing."""
    return [{"resourceID": "dev-0", "health": health}] if stage.kubelet.minor >= 36 else []


@pytest.mark.promise("DP-022", "G3-01")
async def test_when_options_fail_the_plugin_is_not_used(stage: NodeUnderTest) -> None:
    """A plugin that fails GetDevicePluginOptions is refused by Register, and the node gets no such resource."""
    plugin = SamplePlugin(healthy(1))
    plugin.refusals["GetDevicePluginOptions"] = "no options today"

    with pytest.raises(
        grpc.aio.AioRpcError, match=r"failed to get device plugin options: rpc error: .*no options today"
    ):
        await stage.plug(plugin)

    assert plugin.asked("ListAndWatch") == []
    await stage.counts(None, None)


@pytest.mark.promise("DP-022", "G3-02", "G3-03")
async def test_a_device_turns_unhealthy_and_healthy_again(stage: NodeUnderTest) -> None:
    """Allocatable follows the health of devices, and capacity follows the newest list alone."""
    plugin = await stage.serve(1)
    plugin.announce({"dev-0": False})
    await stage.counts(1, 0)
    plugin.announce({"dev-0": True})
    await stage.counts(1, 1)
    plugin.announce(healthy(5) | {"dev-3": False, "dev-4": False})
    await stage.counts(5, 3)
    plugin.announce(healthy(2))
    await stage.counts(2, 2)


@pytest.mark.promise("DP-022")
async def test_a_pod_runs_on_over_a_device_that_turns_unhealthy(stage: NodeUnderTest) -> None:
    """A pod runs on over an unhealthy device, which its status shows from 1.36 on and its deletion does not cure."""
    plugin = await stage.serve(1)
    await stage.run("p", stage.container(devices=1))
    assert await health_of(stage, "p") == shown(stage, "Healthy")
    plugin.announce({"dev-0": False})

    await eventually(
        lambda: health_of(stage, "p"), lambda seen: seen == shown(stage, "Unhealthy"), "the status says Unhealthy"
    )
    await stage.counts(1, 0)
    assert (await stage.pod("p"))["status"]["phase"] == "Running"
    await stage.delete("p")
    await stage.is_gone("p")
    await stage.counts(1, 0)


@pytest.mark.promise("DP-022")
async def test_a_failed_pod_shows_the_health_of_its_devices(stage: NodeUnderTest) -> None:
    """A pod that has failed shows the health of its devices in its status from 1.36 on."""
    await stage.serve(1)
    await stage.create("p", stage.container(devices=1, command=["false"]), restartPolicy="Never")
    await stage.reaches("p", "Failed")

    assert await health_of(stage, "p") == shown(stage, "Healthy")


@pytest.mark.promise("DP-022")
async def test_when_the_first_list_fails_the_resource_is_zero(stage: NodeUnderTest) -> None:
    """A plugin whose first list fails has capacity and allocatable 0, and its list is not asked for again."""
    plugin = SamplePlugin(healthy(2))
    plugin.refusals["ListAndWatch"] = "no list today"
    await stage.plug(plugin)

    await stage.counts(0, 0)
    assert plugin.asked("ListAndWatch") == [()]


@pytest.mark.promise("G3-05")
@pytest.mark.stand_in_only("a real kubelet works for minutes on that number of ids")
@pytest.mark.parametrize(("count", "taken"), [(57_456, 57_456), (70_000, 0)], ids=["just below", "above"])
async def test_a_list_above_4_mib_ends_the_plugin(stage: NodeUnderTest, count: int, taken: int) -> None:
    """The resource of a plugin with a longer list (73 bytes for each device here) shows 0 for good."""
    plugin = await stage.plug(SamplePlugin({f"{number:060}": True for number in range(count)}))

    await stage.counts(taken, taken)
    assert plugin.asked("ListAndWatch") == [()]


@pytest.mark.promise("DP-022", "G3-04")
@pytest.mark.minutes_on_kind(6, "a kubelet's grace of five minutes")
@pytest.mark.parametrize("timings", [Timings().scaled(0.005)], ids=["grace of 1.5 s"])
async def test_failed_list_zeroes_allocatable_and_then_capacity(stage: NodeUnderTest) -> None:
    """A list that ends zeroes allocatable, and capacity after the grace period, and is not asked for again."""
    plugin = await stage.serve(2)
    plugin.end_list()

    await stage.counts(2, 0)
    await stage.counts(0, 0, seconds=GRACE_SECONDS)
    assert plugin.asked("ListAndWatch") == [()]


@pytest.mark.promise("G3-11")
async def test_an_allocate_error_is_final(stage: NodeUnderTest) -> None:
    """An error of Allocate fails the pod for good, with its text in the pod's message and in an event."""
    plugin = SamplePlugin(healthy(1))
    plugin.refusals["Allocate"] = "no card for you"
    await stage.plug(plugin)
    await stage.counts(1, 1)
    await stage.create("p", stage.container(devices=1))
    status = (await stage.reaches("p", "Failed"))["status"]

    text = "Allocate failed due to rpc error: code = Internal desc = no card for you, which is unexpected"
    assert (status["reason"], status["message"]) == ("UnexpectedAdmissionError", f"Pod was rejected: {text}")
    assert ("UnexpectedAdmissionError", text) in await stage.warnings("p")


@pytest.mark.promise("G3-12")
async def test_a_pre_start_error_makes_the_container_wait(stage: NodeUnderTest) -> None:
    """A container whose PreStartContainer fails waits without a log, with the text in its message and event, and starts later."""
    plugin = SamplePlugin(healthy(1), pre_start=True)
    plugin.refusals["PreStartContainer"] = "wait for the book"
    await stage.plug(plugin)
    await stage.counts(1, 1)
    await stage.create("p", stage.container(devices=1))

    async def waiting() -> dict[str, str]:
        statuses = (await stage.pod("p"))["status"].get("containerStatuses") or [{}]
        return dict(statuses[0].get("state", {}).get("waiting") or {})

    seen = await eventually(
        waiting, lambda found: found.get("reason") == "CreateContainerConfigError", "the container waits"
    )
    assert "wait for the book" in seen["message"]

    async def log() -> str:
        try:
            return await stage.log("p")
        except ApiError as error:
            return f"{error.code} {error.message}"

    wanted = '400 container "main" in pod "p" is waiting to start: CreateContainerConfigError'
    await eventually(log, lambda text: text == wanted, wanted)
    await eventually(
        lambda: stage.warnings("p"), lambda found: any("wait for the book" in text for _, text in found), "an event"
    )
    plugin.refusals.clear()
    await stage.reaches("p", "Running")
    assert len(plugin.asked("Allocate")) == 1
