"""The kubelet as a whole: a real HTTP API, a real device plugin, simulated cards of fake_nvml."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import grpc.aio
import pytest

from clusters.images.behaviour import Behaviours
from clusters.kubelet.kubelet import Kubelet
from clusters.kubelet.kubelet_cards import Cards
from clusters.kubelet.machine import Machine
from clusters.kubelet.proto import podresources_pb2, podresources_pb2_grpc
from clusters.kubelet.timings import Timings
from tests.clusters.kubelet.conftest import kubelet_on, plug
from tests.clusters.kubelet.pods_of_tests import container, pod
from tests.clusters.kubelet.small_plugin import RESOURCE, Plugin, ids
from tests.servers import plain_http, until


def states(api, name, kind="containerStatuses") -> dict[str, Any]:
    """Container → the name of its state, and what is in it."""
    return {one["name"]: next(iter(one["state"].items())) for one in api.pod(name)["status"].get(kind, ())}


def conditions(item) -> dict[str, str]:
    return {one["type"]: one["status"] for one in item["status"]["conditions"]}


def is_gone(api, name) -> bool:
    return api.find("pods", name) is None


async def lister(kubelet, call) -> Any:
    async with grpc.aio.insecure_channel(f"unix:{kubelet.pod_resources_socket}") as channel:
        return await call(podresources_pb2_grpc.PodResourcesListerStub(channel))


async def test_the_node_appears_ready_with_its_resources(kubelet, api, plugin) -> None:
    """Labels, conditions, capacity, address and port are as a kubelet writes them."""
    node = api.nodes[0]

    assert node["metadata"]["labels"]["gpushare"] == "true"
    pressures = {"MemoryPressure": "False", "DiskPressure": "False", "PIDPressure": "False"}
    assert conditions(node) == {**pressures, "Ready": "True"}
    assert node["status"]["capacity"] == {
        "cpu": "8",
        "memory": "32Gi",
        "pods": "110",
        "ephemeral-storage": "100Gi",
        RESOURCE: "10",
    }
    assert node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"] == kubelet.log_port
    assert {"type": "InternalIP", "address": "127.0.0.1"} in node["status"]["addresses"]


@pytest.mark.promise("G3-03")
async def test_sick_devices_leave_allocatable_lost_plugin_capacity(kubelet, api, plugin) -> None:
    """Sick devices reduce allocatable; without the plugin it is 0."""
    plugin.announce({f"id-{n}": n < 6 for n in range(10)})
    await until(lambda: api.nodes[0]["status"]["allocatable"][RESOURCE] == "6")
    assert api.nodes[0]["status"]["capacity"][RESOURCE] == "10"

    await plugin.stop()
    await until(lambda: api.nodes[0]["status"]["allocatable"][RESOURCE] == "0")
    assert api.nodes[0]["status"]["capacity"][RESOURCE] == "10"


async def test_a_pod_runs_and_holds_memory_and_gives_it_back(kubelet, api, plugin, state) -> None:
    """The player holds 1253 MiB of the card that it sees, until it is deleted."""
    api.put(pod("p", container("main", 3, image="cheyang/gpu-player:v2")))
    await until(lambda: api.phase("p") == "Running")

    status = api.pod("p")["status"]
    all_is_well = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")
    assert conditions(api.pod("p")) == dict.fromkeys(all_is_well, "True")
    assert states(api, "p")["main"][0] == "running"
    assert status["podIP"].startswith("10.244.")
    assert status["startTime"] == "2023-11-14T22:13:20Z"
    assert [(p.name, p.mib) for p in state.cards()[0].processes] == [("python", 1253)]

    api.delete("pods", "p", grace=30)
    await until(lambda: is_gone(api, "p"))
    assert state.cards()[0].processes == ()


async def test_few_writes_for_each_pod(kubelet, api, plugin) -> None:
    """No more than one for each thing that happens: admitted, three starts, stopping, ended, gone."""

    def writes() -> int:
        # The node's status may still be on its way.
        return sum(call["method"] != "GET" and "/nodes/" not in call["path"] for call in api.calls)

    before = writes()
    api.put(pod("p", container("a", 1), container("b", 1), container("c")))
    await until(lambda: api.phase("p") == "Running" and conditions(api.pod("p"))["Ready"] == "True")
    running = writes() - before
    api.delete("pods", "p", grace=30)
    await until(lambda: is_gone(api, "p"))

    assert running <= 4
    assert writes() - before <= 7


async def test_a_card_without_room_ends_the_container(kubelet, api, plugin, state) -> None:
    """The log of a container on a full card has CUDA's error, out of memory."""
    state.add_process(state.cards()[0].uuid, 77, 14_500, "somebody")
    api.put(pod("p", container("main", 1, image="cheyang/gpu-player:v2"), restartPolicy="Never"))
    await until(lambda: api.phase("p") == "Failed")

    assert "CUDA out of memory" in await log_of(kubelet, "p/main")
    assert states(api, "p")["main"][1]["exitCode"] == 1


@pytest.mark.promise("G3-11")
async def test_an_allocate_error_is_final(kubelet, api, plugin) -> None:
    """The pod fails with the plugin's text and keeps its object; the next pod is admitted."""
    plugin.allocate_error = "no card for you"
    api.put(pod("p", container("main", 1)))
    await until(lambda: api.phase("p") == "Failed")

    status = api.pod("p")["status"]
    assert status["reason"] == "UnexpectedAdmissionError"
    assert status["message"] == (
        "Pod was rejected: Allocate failed due to rpc error: code = Internal desc = no card for you, "
        "which is unexpected"
    )
    plugin.allocate_error = ""
    api.put(pod("q", container("main", 10)))
    await until(lambda: api.phase("q") == "Running")
    assert api.phase("p") == "Failed"


@pytest.mark.promise("G3-12")
async def test_a_refused_start_waits_and_is_tried_again(kubelet, api, plugin) -> None:
    """The container waits with the reason, an event has it too, and it runs as soon as the plugin agrees."""
    plugin.pre_start_error = "wrong card"
    api.put(pod("p", container("main", 1)))
    await until(lambda: len(plugin.asked("pre_start")) >= 3, "tries")

    state, detail = states(api, "p")["main"]
    assert (state, detail["reason"]) == ("waiting", "CreateContainerConfigError")
    assert "FailedPrecondition desc = wrong card" in detail["message"]
    assert api.phase("p") == "Pending"
    assert {(event["reason"], event["type"]) for event in api.events} == {("Failed", "Warning")}
    assert "wrong card" in api.events[0]["message"]

    plugin.pre_start_error = ""
    await until(lambda: api.phase("p") == "Running")
    assert len(plugin.asked("allocate")) == 1


@pytest.mark.promise("G3-07")
async def test_pods_are_admitted_one_after_the_other_in_bind_order(kubelet, api, plugin) -> None:
    """All Allocates of a pod come before those of the next, in the order in which the pods were bound."""
    for name in ("z", "m", "a"):
        api.put(pod(name, container("one", 1), container("two", 2)))
    await until(lambda: all(api.phase(name) == "Running" for name in "zma"))

    book = await lister(kubelet, lambda stub: stub.List(podresources_pb2.ListPodResourcesRequest()))
    owner = {
        i: (p.name, c.name) for p in book.pod_resources for c in p.containers for d in c.devices for i in d.device_ids
    }
    order = [owner[one[0]] for one in plugin.asked("allocate")]
    assert order == [(p, c) for p in "zma" for c in ("one", "two")]


async def test_a_pod_deleted_by_force_leaves_its_containers_to_stop(kubelet, api, plugin, state) -> None:
    """The object is gone immediately and so is its hold on devices; the process goes on until it obeys."""
    api.put(pod("p", container("main", 10, image="simulated/slow-stopper")))
    await until(lambda: api.phase("p") == "Running")
    api.delete("pods", "p")
    api.put(pod("q", container("main", 10)))
    await until(lambda: api.phase("q") == "Running")

    assert [p.mib for p in state.cards()[0].processes] == [1024]
    await until(lambda: state.cards()[0].processes == ())


async def test_pod_deleted_before_admission_gets_its_devices_and_goes(kubelet, api, plugin) -> None:
    """Real kubelets (1.36.3) admit whatever has not ended; none of its containers is started."""
    doomed = pod("p", container("main", 1), inits=(container("init"),))
    doomed["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    api.put(doomed)
    await until(lambda: is_gone(api, "p"))

    assert [len(ids) for ids in plugin.asked("allocate")] == [1]
    api.put(pod("q", container("main")))
    await until(lambda: api.phase("q") == "Running")
    first_container_of_the_node = "simulated://5000000"
    assert api.pod("q")["status"]["containerStatuses"][0]["containerID"] == first_container_of_the_node


@pytest.mark.promise("G3-15")
async def test_pod_resources_shows_each_id_alone(kubelet, api, plugin) -> None:
    """Active pods only, sidecars and containers, no ordinary init container; Get answers for one."""
    inits = (container("init", 1, command=["true"]), container("side", 1, restartPolicy="Always"))
    api.put(pod("p", container("main", 2), container("plain"), inits=inits))
    api.put(pod("ended", container("main", 1, command=["true"]), restartPolicy="Never"))
    await until(lambda: api.phase("p") == "Running" and api.phase("ended") == "Succeeded")

    book = await lister(kubelet, lambda stub: stub.List(podresources_pb2.ListPodResourcesRequest()))
    request = podresources_pb2.GetPodResourcesRequest(pod_name="p", pod_namespace="default")
    one = await lister(kubelet, lambda stub: stub.Get(request))

    (shown,) = book.pod_resources
    assert {c.name: [len(d.device_ids) for d in c.devices] for c in shown.containers} == {
        "side": [1],
        "main": [1, 1],
        "plain": [],
    }
    assert one.pod_resources == shown


@pytest.mark.parametrize(("version", "count"), [("v1.30.14", "0"), ("v1.36.3", "1")])
async def test_a_start_in_an_empty_folder(kubelet, api, plugin, version, count) -> None:
    """An old kubelet takes that for a machine that was replaced, and shows none of the resources of the one before."""
    await kubelet.stop()
    for path in kubelet.plugin_folder.iterdir():
        path.unlink()
    await api.client.request(
        "PATCH", "/api/v1/nodes/n1/status", body={"status": {"capacity": {"aliyun.com/gpu-count": "1"}}}
    )
    kubelet.machine = replace(kubelet.machine, version=version)
    await kubelet.start()

    assert api.nodes[0]["status"]["capacity"]["aliyun.com/gpu-count"] == count


@pytest.mark.promise("G3-14")
async def test_a_start_without_the_checkpoint_alone_keeps_all_amounts(kubelet, api, plugin) -> None:
    """A kubelet that starts without its checkpoint keeps all amounts, those of a plugin included."""
    before = api.nodes[0]["status"]["capacity"][RESOURCE]
    await kubelet.stop()
    (kubelet.plugin_folder / "kubelet_internal_checkpoint").unlink()
    kubelet.machine = replace(kubelet.machine, version="v1.30.14")
    await kubelet.start()

    assert api.nodes[0]["status"]["capacity"][RESOURCE] == before != "0"


@pytest.mark.promise("G3-14")
async def test_a_start_with_checkpoint_keeps_foreign_amounts(kubelet, api, plugin) -> None:
    """Capacity that another program wrote stays."""
    await kubelet.stop()
    await api.client.request(
        "PATCH", "/api/v1/nodes/n1/status", body={"status": {"capacity": {"aliyun.com/gpu-count": "1"}}}
    )
    await kubelet.start()

    assert api.nodes[0]["status"]["capacity"]["aliyun.com/gpu-count"] == "1"


async def test_an_api_server_that_is_away_loses_nothing(kubelet, api, plugin) -> None:
    """The changes in between are written when it is back."""
    api.put(pod("p", container("main", 1, command=["sh", "-c", "sleep 0.05; exit 0"]), restartPolicy="Never"))
    await until(lambda: api.phase("p") == "Running")
    api.fault = lambda method, path: (503, {})
    plugin.announce(ids("ab"))
    await asyncio.sleep(0)
    api.fault = lambda method, path: None

    await until(lambda: api.phase("p") == "Succeeded")
    await until(lambda: api.nodes[0]["status"]["capacity"][RESOURCE] == "2")


async def test_stop_ends_everything(kubelet, api, plugin, state) -> None:
    """Processes end, and the pod's status stays as it was."""
    api.put(pod("p", container("main", 1, image="cheyang/gpu-player:v2")))
    await until(lambda: api.phase("p") == "Running")
    await kubelet.stop()

    assert state.cards()[0].processes == ()
    assert api.phase("p") == "Running"


async def log_of(kubelet, path) -> str:

    async with plain_http() as http:
        answer = await http.get(f"http://127.0.0.1:{kubelet.log_port}/containerLogs/default/{path}")
        assert answer.status_code == 200
        return answer.text


async def test_a_hundred_pods(kubelet, api) -> None:
    """A whole node's pods are admitted together, and run on devices of their own."""
    big = Plugin(ids(range(100)))
    await plug(kubelet, api, big)
    for number in range(100):
        api.put(pod(f"p{number}", container("main", 1)))
    await until(lambda: all(api.phase(f"p{number}") == "Running" for number in range(100)))

    assert len({one for call in big.asked("allocate") for one in call}) == 100
    await big.stop()


@pytest.mark.parametrize("pod_timings", [Timings(start_retry=3600, start_retry_longest=3600)], ids=["patient"])
async def test_changed_annotation_lets_a_waiting_container_try_now(kubelet, api, plugin) -> None:
    """A changed annotation lets a waiting container try again, as after a repair of a wrong booking."""
    plugin.pre_start_error = "wrong card"
    api.put(pod("p", container("main", 1)))
    await until(lambda: api.events, "the refusal")
    plugin.pre_start_error = ""
    api.put(api.pod("p") | {"metadata": api.pod("p")["metadata"] | {"annotations": {"repaired": "yes"}}})

    await until(lambda: api.phase("p") == "Running")


async def test_after_a_start_pods_are_admitted_by_creation_time(kubelet, api, plugin) -> None:
    """Bind order is not known any more; a list comes by name."""
    await kubelet.stop()
    for name, second in (("a", 3), ("b", 1), ("c", 2)):
        item = pod(name, container("main", 11))  # too many: each is rejected, in order
        item["metadata"]["creationTimestamp"] = f"2026-01-01T00:00:0{second}Z"
        api.put(item)
    await kubelet.start()
    await until(lambda: all(api.phase(name) == "Failed" for name in "abc"))

    assert [event["involvedObject"]["name"] for event in api.events] == ["b", "c", "a"]


async def test_a_deleted_pod_is_neither_listed_nor_run(kubelet, api) -> None:
    """The kubelet neither lists nor runs a pod after its deletion."""

    api.put(pod("p", container("main")))
    await until(lambda: api.phase("p") == "Running")
    api.delete("pods", "p", grace=30)
    await until(lambda: is_gone(api, "p"))
    api.put(pod("q", container("main")))
    await until(lambda: api.phase("q") == "Running")
    listed = await lister(kubelet, lambda stub: stub.List(podresources_pb2.ListPodResourcesRequest()))

    assert [one.name for one in listed.pod_resources] == ["q"]
    await until(lambda: kubelet.runtime.pods() == {"uid-q"})


async def test_new_node_gets_all_labels_and_old_one_only_plain_ones(kubelet, api) -> None:
    """A kubelet that restarts restores the standard labels of its Node, and no other that was removed."""
    assert api.nodes[0]["metadata"]["labels"].keys() >= {"gpushare", "kubernetes.io/hostname", "beta.kubernetes.io/os"}
    await kubelet.stop()
    gone = {"metadata": {"labels": {"gpushare": None, "kubernetes.io/hostname": None}}}
    await api.client.request("PATCH", "/api/v1/nodes/n1", body=gone)
    await kubelet.start()

    labels = api.nodes[0]["metadata"]["labels"]
    assert "gpushare" not in labels
    assert labels["kubernetes.io/hostname"] == "n1"


async def test_a_condition_that_was_changed_is_put_right(kubelet, api) -> None:
    """The kubelet writes its own condition back after a node lifecycle controller has changed it."""
    unknown = {"status": {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]}}
    await api.client.request("PATCH", "/api/v1/nodes/n1/status", body=unknown)

    await until(lambda: conditions(api.nodes[0])["Ready"] == "True")


async def test_a_pod_of_before_that_is_not_let_in_again_is_ended(kubelet, api, plugin, state) -> None:
    """A running pod whose ended init container had devices fails after a restart of the kubelet and is stopped."""
    inits = (container("init", 1, command=["true"]),)
    api.put(pod("p", container("main", 1, image="cheyang/gpu-player:v2"), inits=inits))
    await until(lambda: api.phase("p") == "Running")
    await kubelet.restart()
    await until(lambda: api.phase("p") == "Failed")

    assert api.pod("p")["status"]["reason"] == "UnexpectedAdmissionError"
    await until(lambda: state.cards()[0].processes == ())


async def test_a_pod_that_is_not_let_in_takes_no_room_from_the_next(kubelet, api, plugin) -> None:
    """A pod that is not admitted takes no room from the next, though both wait for admission at the same time."""
    await kubelet.stop()
    cpu = {"name": "x", "image": "i", "resources": {"requests": {"cpu": "8"}}}
    api.put(pod("a", container("main", 1), cpu))
    api.put(pod("b", cpu))
    await kubelet.start()
    await until(lambda: api.phase("a") == "Failed")

    await until(lambda: api.phase("b") == "Running")


@pytest.mark.parametrize("pod_timings", [Timings(restart=3600, restart_longest=3600)], ids=["patient"])
async def test_a_container_in_back_off_says_how_long_and_keeps_its_log(kubelet, api) -> None:
    """In a real kubelet's words, in its status and in an event."""
    api.put(pod("p", container("main", command=["sh", "-c", "echo once; exit 3"])))
    await until(lambda: any(event["reason"] == "BackOff" for event in api.events))
    await until(lambda: api.phase("p") == "Running")

    text = "back-off 3600s restarting failed container=main pod=p_default(uid-p)"
    await until(lambda: states(api, "p")["main"] == ("waiting", {"reason": "CrashLoopBackOff", "message": text}))
    event = next(event for event in api.events if event["reason"] == "BackOff")
    assert event["message"] == "Back-off restarting failed container main in pod p_default(uid-p)"
    assert await log_of(kubelet, "p/main?previous=true") == "once\n"


@pytest.mark.promise("G3-16")
@pytest.mark.parametrize(("version", "shown"), [("v1.36.0", True), ("v1.35.9", False)])
async def test_a_pod_shows_its_devices_from_1_36_on(folder, api, state, pod_timings, version, shown) -> None:
    """A pod's status shows the health of its app containers' devices from 1.36 on, and none of a sidecar's."""
    kubelet = Kubelet(
        Machine("n1", version=version),
        folder,
        api.client,
        behaviours=Behaviours.load(),
        cards=Cards(state),
        seed=1,
        clock=lambda: 1_700_000_000.0,
        timings=pod_timings,
    )
    await kubelet.start()
    plugin = Plugin(ids("abc"))
    await plug(kubelet, api, plugin)
    inits = (container("side", 1, restartPolicy="Always"),)
    api.put(pod("p", container("main", 2), inits=inits))
    await until(lambda: api.phase("p") == "Running")
    plugin.announce({"a": False, "b": False, "c": False})
    await until(lambda: api.nodes[0]["status"]["allocatable"][RESOURCE] == "0")

    status = api.pod("p")["status"]
    (main,), (side,) = status["containerStatuses"], status["initContainerStatuses"]
    assert "allocatedResourcesStatus" not in side
    assert ("allocatedResourcesStatus" in main) is shown
    if shown:

        def healths() -> tuple[str, list[str]]:
            (one,) = api.pod("p")["status"]["containerStatuses"][0]["allocatedResourcesStatus"]
            return one["name"], [each["health"] for each in one["resources"]]

        await until(lambda: healths() == (RESOURCE, ["Unhealthy"] * 2))
    await kubelet.stop()
    await plugin.stop()


async def test_get_shows_a_pod_that_has_ended_and_frees_nothing(kubelet, api, plugin) -> None:
    """Get shows the devices of an ended pod and frees none, until List takes them back."""
    api.put(pod("p", container("main", 2, command=["true"]), restartPolicy="Never"))
    await until(lambda: api.phase("p") == "Succeeded")
    request = podresources_pb2.GetPodResourcesRequest(pod_name="p", pod_namespace="default")
    shown = await lister(kubelet, lambda stub: stub.Get(request))
    assert len(shown.pod_resources.containers[0].devices) == 2

    assert not (await lister(kubelet, lambda stub: stub.List(podresources_pb2.ListPodResourcesRequest()))).pod_resources
    shown = await lister(kubelet, lambda stub: stub.Get(request))
    assert len(shown.pod_resources.containers[0].devices) == 0


@pytest.mark.parametrize("seconds", [0.0, 0.2])
async def test_equal_pods_may_be_admitted_in_another_order(folder, api, state, pod_timings, seconds) -> None:
    """Where the timings say so: pods that ask for the same change places among themselves, the others keep theirs."""
    kubelet = kubelet_on(Machine("n1"), folder, api, state, replace(pod_timings, admission_shuffle=seconds))
    await kubelet.start()
    plugin = Plugin(ids(f"id-{n}" for n in range(40)))
    await plug(kubelet, api, plugin)
    equal = [f"equal-{number}" for number in range(12)]
    names = [*equal[:6], "other", *equal[6:]]
    try:
        for name in names:
            api.put(pod(name, container("main", 2 if name == "other" else 1)))
        await until(lambda: len(plugin.asked("allocate")) == len(names), "all are admitted")
        book = await lister(kubelet, lambda stub: stub.List(podresources_pb2.ListPodResourcesRequest()))
        owner = {i: p.name for p in book.pod_resources for c in p.containers for d in c.devices for i in d.device_ids}
        order = [owner[one[0]] for one in plugin.asked("allocate")]
    finally:
        await kubelet.stop()
        await plugin.stop()

    assert sorted(order) == sorted(names)
    assert (order == names) is (seconds == 0)
    assert order[6] == "other"


async def test_an_operator_may_set_what_a_lost_plugin_had(folder, api, state, pod_timings) -> None:
    """After the grace period the node shows 0 once; an amount that is set then stays."""
    kubelet = kubelet_on(Machine("n1"), folder, api, state, replace(pod_timings, endpoint_grace=0.05))
    await kubelet.start()
    plugin = Plugin(ids("ab"))
    await plug(kubelet, api, plugin)
    await plugin.stop()
    try:
        await until(lambda: api.nodes[0]["status"]["capacity"][RESOURCE] == "0", "it is gone")
        theirs = {"status": {"capacity": {RESOURCE: "7"}}}
        await api.client.request("PATCH", "/api/v1/nodes/n1/status", body=theirs)
        await until(lambda: api.nodes[0]["status"]["allocatable"].get(RESOURCE) == "7", "it is allocatable")
    finally:
        await kubelet.stop()

    assert api.nodes[0]["status"]["capacity"][RESOURCE] == "7"


async def test_init_containers_run_in_order_and_sidecars_stay(kubelet, api, plugin) -> None:
    """Ordinary ones have ended before the pod runs."""
    inits = (
        container("first", 1, command=["true"]),
        container("side", restartPolicy="Always"),
        container("second", command=["sh", "-c", "exit 0"]),
    )
    api.put(pod("p", container("main", 1), inits=inits))
    await until(lambda: api.phase("p") == "Running")

    found = states(api, "p", "initContainerStatuses")
    assert {name: state for name, (state, _) in found.items()} == {
        "first": "terminated",
        "side": "running",
        "second": "terminated",
    }
