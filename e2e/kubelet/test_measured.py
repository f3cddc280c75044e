"""*What a real kubelet does with a device plugin* (e2e/README.md) as cases, and answers that its source left open.

Errors of Allocate and PreStartContainer are in ``test_device_plugin_failures``, restarts in ``test_device_plugin`` and
``e2e/slots``. A kubelet's time for tens of thousands of ids is why the product keeps its ids few (DP-003). No case is
about the flag that moves the kubelet's folder, which no cluster here does.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

import grpc
import grpc.aio
import pytest

from clusters.api.api_client import Object
from clusters.api.waiting import eventually
from clusters.kubelet.proto import podresources_pb2 as pb
from clusters.kubelet.proto.grpc_services import POD_RESOURCES, stub_of
from e2e.kubelet.node_under_test import NodeUnderTest, Worker, held_by
from e2e.kubelet.sample_plugin import SamplePlugin, healthy

# A kubelet answers Get unasked from this minor of Kubernetes 1 on, and shows the health of devices from that one on.
_GET_SINCE, _HEALTH_SINCE = 34, 36


@pytest.mark.promise("G3-07")
async def test_pods_are_admitted_one_by_one_in_binding_order(stage: NodeUnderTest) -> None:
    """Pods are allocated for one by one in the order of their binding, and containers in their order in the pod."""
    plugin = await stage.serve(40, pre_start=True)
    names = [f"p{number}" for number in range(10)]
    for name in names:
        sidecar = stage.container("sidecar", 1, restartPolicy="Always")
        containers = [stage.container("first", 1), stage.container("second", 1)]
        await stage.create(name, *containers, nodeName=None, schedulerName="nobodys", initContainers=[sidecar])
    random.Random(1).shuffle(names)
    for name in names:
        await stage.bind(name)
    for name in names:
        await stage.reaches(name, "Running")

    owner = {ids: key for key, held in (await stage.held()).items() for ids in held}
    allocated = [owner[one] for (one,) in plugin.asked("Allocate")]
    assert allocated == [(name, container) for name in names for container in ("sidecar", "first", "second")]
    for name in names:
        of_pod = [verb for verb, ids in plugin.calls if ids and owner.get(ids[0], ("", ""))[0] == name]
        assert of_pod == ["Allocate"] * 3 + ["PreStartContainer"] * 3


@pytest.mark.promise("G3-06")
async def test_a_preference_is_obeyed_to_the_letter(stage: NodeUnderTest) -> None:
    """The ids that the plugin prefers are those of the Allocate that follows, even if there is no choice."""
    preferred: list[list[str]] = []

    def highest(free: list[str], must: list[str], size: int) -> list[str]:
        preferred.append(must + sorted(set(free) - set(must), reverse=True)[: size - len(must)])
        return preferred[-1]

    plugin = await stage.serve(5, prefers=highest)
    for name, size in (("two", 2), ("one", 1), ("rest", 2)):
        await stage.create(name, stage.container(devices=size))
        await stage.reaches(name, "Running")

    assert [set(ids) for ids in plugin.asked("Allocate")] == [set(ids) for ids in preferred]
    assert [set(ids) for ids in preferred] == [{"dev-4", "dev-3"}, {"dev-2"}, {"dev-1", "dev-0"}]
    assert [set(ids) for ids in plugin.asked("GetPreferredAllocation")] == [
        set(healthy(5)),
        {"dev-0", "dev-1", "dev-2"},
        {"dev-0", "dev-1"},
    ]
    verbs = [verb for verb, _ in plugin.calls if verb in ("GetPreferredAllocation", "Allocate")]
    assert verbs == ["GetPreferredAllocation", "Allocate"] * 3


@pytest.mark.promise("G3-15")
async def test_inside_pre_start_the_list_names_the_owner(stage: NodeUnderTest) -> None:
    """List, and Get from 1.34 on, show exactly the container's ids during PreStartContainer, one in each message."""
    listed: list[list[pb.PodResources]] = []
    got: list[pb.PodResources] = []

    async def look(_: tuple[str, ...]) -> None:
        listed.append(await stage.listed())
        if stage.kubelet.minor >= _GET_SINCE:
            got.append(await get(stage, "p"))

    plugin = await stage.serve(5, at_start=look)
    await stage.run("p", stage.container(devices=3))

    (ids,) = plugin.asked("PreStartContainer")
    assert [held_by(one) for one in listed] == [{("p", "main"): set(ids)}]
    (container,) = listed[0][0].containers
    assert sorted(len(one.device_ids) for one in container.devices) == [1, 1, 1]
    assert {one.resource_name for one in container.devices} == {stage.resource}
    assert [held_by([one]) for one in got] == [{("p", "main"): set(ids)} for _ in got]


@pytest.mark.promise("DP-022")
@pytest.mark.real_kubelet_only("the stand-in has no container runtime that reads CDI specifications")
async def test_a_cdi_device_is_in_the_container(stage: NodeUnderTest) -> None:
    """A CDI device that Allocate names is edited into the container by the runtime."""
    assert isinstance(stage.kubelet, Worker)
    edits = {"env": ["SEEN_BY_CDI=yes"]}
    await stage.kubelet.declare_cdi(
        {"cdiVersion": "0.6.0", "kind": "example.com/card", "devices": [{"name": "x", "containerEdits": edits}]}
    )
    await stage.serve(1, cdi_device="example.com/card=x")
    await stage.run("p", stage.container(devices=1))

    await eventually(lambda: stage.log("p"), lambda log: "SEEN_BY_CDI=yes" in log.splitlines(), "the edit is seen")


async def test_the_pods_own_variable_wins(stage: NodeUnderTest) -> None:
    """In a container ``env`` beats ``envFrom``, the last source of which beats the others, and each beats the plugin's answer."""
    plugin = await stage.serve(5)
    map_ = {"configMapRef": {"name": "ids"}}
    secret = {"secretRef": {"name": "ids"}, "prefix": "I"}
    await stage.api.create(
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "ids"}, "stringData": {"DS": "secret"}},
        stage.namespace,
    )
    rows: dict[str, dict[str, Any]] = {
        "env": {"env": [{"name": "IDS", "value": "mine"}], "envFrom": [map_]},
        "map": {"envFrom": [map_]},
        "secret-last": {"envFrom": [map_, secret]},
        "map-last": {"envFrom": [secret, map_]},
        "optional": {"envFrom": [{"configMapRef": {"name": "none", "optional": True}}]},
    }
    await stage.create("p", *(stage.container(name, 1, **fields) for name, fields in rows.items()))

    missing = ("Failed", 'Error: configmap "ids" not found')
    await eventually(lambda: stage.warnings("p"), lambda found: missing in found, "an event names what is missing")
    await stage.api.create(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ids"}, "data": {"IDS": "map"}}, stage.namespace
    )
    await stage.reaches("p", "Running")
    told = {name: await stage.told_ids("p", name) for name in rows}
    given = {"optional": (await stage.held())["p", "optional"]}
    assert told == {"env": {"mine"}, "map": {"map"}, "secret-last": {"secret"}, "map-last": {"map"}, **given}
    assert len(plugin.asked("Allocate")) == len(rows)


@pytest.mark.promise("G3-16")
async def test_the_status_names_the_devices_of_app_containers(stage: NodeUnderTest) -> None:
    """The pod's status names every id of each app container from 1.36 on, and none of sidecars or init containers."""
    await stage.serve(6)
    inits = [stage.container("init", 1, command=["true"]), stage.container("sidecar", 1, restartPolicy="Always")]
    await stage.run("p", stage.container("one", 2), stage.container("two", 1), initContainers=inits)
    held = await stage.held()
    shows = stage.kubelet.minor >= _HEALTH_SINCE
    wanted = {name: held["p", name] if shows else set() for name in ("one", "two")}

    async def seen() -> dict[str, set[str]]:
        status = (await stage.pod("p"))["status"]
        assert not [one for one in status["initContainerStatuses"] if one.get("allocatedResourcesStatus")]
        return {one["name"]: device_ids(one) for one in status["containerStatuses"]}

    await eventually(seen, lambda found: found == wanted, "the status names the devices")


async def test_devices_are_given_before_the_node_is_looked_at(stage: NodeUnderTest) -> None:
    """A pod that the node refuses for its CPU is allocated for before, and its devices serve the next pod."""
    plugin = await stage.serve(1)
    huge = stage.container(devices=1)
    huge["resources"]["requests"] = {"cpu": "4000"}
    await stage.create("p", huge)
    status = (await stage.reaches("p", "Failed"))["status"]

    assert status["reason"] == "OutOfcpu"
    assert len(plugin.asked("Allocate")) == 1
    await stage.run("q", stage.container(devices=1))


async def test_ended_pod_is_not_listed_and_its_devices_serve_the_next(stage: NodeUnderTest) -> None:
    """List shows active pods alone, and the ids of an ended pod serve the next that asks."""
    await stage.serve(2)
    await stage.create("p", stage.container(devices=2, command=["true"]), restartPolicy="Never")
    await stage.reaches("p", "Succeeded")
    await eventually(stage.held, lambda held: held == {}, "the ended pod is not listed")
    await stage.run("q", stage.container(devices=2))

    assert await stage.held() == {("q", "main"): set(healthy(2))}


@pytest.mark.promise("DP-022")
async def test_end_of_an_old_list_drops_the_newer_plugin(stage: NodeUnderTest) -> None:
    """The end of an old list drops the plugin that registered last, which comes back when it registers again."""
    old = await stage.serve(1)
    new = await stage.plug(SamplePlugin(healthy(3)), "newer.sock")
    await stage.counts(3, 3)
    old.end_list()

    await stage.counts(3, 0)
    await stage.plug(new, "newer.sock")
    await stage.counts(3, 3)


async def test_a_burst_of_questions_is_turned_away(stage: NodeUnderTest) -> None:
    """PodResources answers ResourceExhausted to questions beyond a burst of ten and a hundred a second."""
    async with grpc.aio.insecure_channel(f"unix:{stage.kubelet.pod_resources_socket}") as channel:
        pods_of = stub_of(channel, POD_RESOURCES).List

        async def refusal() -> str | None:
            try:
                await pods_of(pb.ListPodResourcesRequest())
            except grpc.aio.AioRpcError as error:
                return f"{error.code().name}: {error.details()}"
            return None

        async def refusals() -> set[str]:
            return {one for one in await asyncio.gather(*(refusal() for _ in range(60))) if one is not None}

        # A busy machine may stretch sixty questions over more than half a second, and then each of them is answered.
        found = await eventually(refusals, bool, "some of sixty questions are turned away")
    assert all(one.startswith("RESOURCE_EXHAUSTED: ") and "rejected by rate limit" in one for one in found)


async def get(stage: NodeUnderTest, name: str) -> pb.PodResources:
    async with grpc.aio.insecure_channel(f"unix:{stage.kubelet.pod_resources_socket}") as channel:
        request = pb.GetPodResourcesRequest(pod_name=name, pod_namespace=stage.namespace)
        answer: pb.GetPodResourcesResponse = await stub_of(channel, POD_RESOURCES).Get(request)
        return answer.pod_resources


def device_ids(container_status: Object) -> set[str]:
    """The ids that a container's status names."""
    return {
        one["resourceID"]
        for resource in container_status.get("allocatedResourcesStatus") or ()
        for one in resource["resources"]
    }
