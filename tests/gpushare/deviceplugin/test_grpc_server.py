"""Promises of the device plugin's gRPC edge, over a real unix socket; and the recorded dialogues of the original."""

from __future__ import annotations

import asyncio
import json
import random
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import grpc
import grpc.aio
import pytest

from gpushare.cli.plugin_flags import ContainerFlags
from gpushare.deviceplugin.allocation import node_view
from gpushare.deviceplugin.allocation.allocate import Allocator
from gpushare.deviceplugin.cards.node_status import NodeWriter
from gpushare.deviceplugin.core import devices
from gpushare.deviceplugin.core.announced_cards import PhysicalCard
from gpushare.deviceplugin.core.health import CardHealth, XidRules
from gpushare.deviceplugin.core.node_pods import NodePods
from gpushare.deviceplugin.grpc_server import DevicePluginServer
from gpushare.deviceplugin.kubelet_records import KubeletRecords
from gpushare.deviceplugin.proto import deviceplugin_pb2 as pb
from gpushare.deviceplugin.proto import deviceplugin_pb2_grpc as pb_grpc
from gpushare.kube.client import ApiClient
from gpushare.kube.event_recorder import EventRecorder
from gpushare.model.cards import CardFacts
from gpushare.model.quantity import MemoryUnit
from tests.counted import bytes_of
from tests.servers import StubApi, http_pool, serve

RECORDED = Path(__file__).parents[2] / "data" / "upstream" / "device_plugin"
MIB = {"t4": 15360, "1080ti": 11264}
UUIDS = [f"GPU-{letter * 8}-0000-0000-0000-000000000000" for letter in "abcdef"]


@dataclass
class Kubelet:
    """The kubelet's side: free ids, and its three calls in its order. Its book is the checkpoint file."""

    plugin: Any
    server: DevicePluginServer
    api: StubApi
    folder: Path
    pods: NodePods
    health: CardHealth
    node: NodeWriter
    devices: dict[str, str] = field(default_factory=dict)
    taken: dict[str, list[str]] = field(default_factory=dict)
    book: list[tuple[str, str, list[str]]] = field(default_factory=list)

    async def list_devices(self) -> pb.ListAndWatchResponse:
        async for message in self.plugin.ListAndWatch(pb.Empty(), timeout=30):
            self.devices = {device.ID: device.health for device in message.devices}
            return message
        raise AssertionError("no list")

    def free(self) -> list[str]:
        return [one for one in self.devices if all(one not in ids for ids in self.taken.values())]

    async def prefer(self, size: int, must: list[str] | None = None) -> list[str]:
        one = pb.ContainerPreferredAllocationRequest(available_deviceIDs=self.free(), allocation_size=size)
        one.must_include_deviceIDs.extend(must or [])
        answer = await self.plugin.GetPreferredAllocation(pb.PreferredAllocationRequest(container_requests=[one]))
        return list(answer.container_responses[0].deviceIDs)

    async def allocate(self, ids: list[str]) -> dict[str, str]:
        one = pb.ContainerAllocateRequest(devices_ids=ids)
        answer = await self.plugin.Allocate(pb.AllocateRequest(container_requests=[one]))
        return dict(answer.container_responses[0].envs)

    async def start(self, owner: str, ids: list[str]) -> None:
        """Write the book, then ask whether the container may start."""
        self.taken[owner] = [*self.taken.get(owner, []), *ids]
        self.book.append((owner, self.next_container(owner), ids))
        entries = [
            {"PodUID": uid, "ContainerName": name, "ResourceName": "aliyun.com/gpu-mem", "DeviceIDs": {"-1": taken}}
            for uid, name, taken in self.book
        ]
        checkpoint = {"Data": {"PodDeviceEntries": entries, "RegisteredDevices": {}}, "Checksum": 1}
        (self.folder / "kubelet_internal_checkpoint").write_text(json.dumps(checkpoint))
        await self.plugin.PreStartContainer(pb.PreStartContainerRequest(devices_ids=ids))

    def next_container(self, owner: str) -> str:
        """The container of the next pod."""
        pods = (pod for pod in self.api.pods if pod["metadata"]["uid"] == owner)
        names = [
            c["name"] for pod in pods for part in ("initContainers", "containers") for c in pod["spec"].get(part, ())
        ]
        known = {name for uid, name, _ in self.book if uid == owner}
        return next(name for name in names if name not in known)

    async def admit(self, size: int) -> tuple[list[str], dict[str, str]]:
        """One container through the first two calls."""
        ids = await self.prefer(size)
        return ids, await self.allocate(ids)


@asynccontextmanager
async def plugin(
    cards: list[str],
    pods: list[dict[str, Any]],
    *,
    unit: str = "GiB",
    labels: dict[str, str] | None = None,
    by: str = "index",
) -> AsyncIterator[Kubelet]:
    """The device plugin's parts wired as in its main, on a stub API server and a socket of its own."""
    api = StubApi(nodes=[{"metadata": {"name": "rig", "labels": labels or {}}, "status": {"capacity": {}}}], pods=pods)
    physical = [PhysicalCard(i, UUIDS[i], model, MIB[model]) for i, model in enumerate(cards)]
    with tempfile.TemporaryDirectory(prefix="gs-", dir="/tmp") as name:
        folder = Path(name)
        async with serve(api) as url, http_pool(url) as http:
            client = ApiClient(http)
            health, known = CardHealth(XidRules(), 0.0), NodePods()
            node = NodeWriter(
                client, "rig", MemoryUnit.parse(unit), "boot", now=lambda: 0.0, health=health, max_ids=10**6
            )
            await node.prepare()
            node.begin(physical)
            await node.publish()
            events = EventRecorder(client, "test", lambda: 0.0, random.Random(1))
            book = KubeletRecords(folder / "none.sock", folder)
            allocator = Allocator(client, known, node, book, events, rules=ContainerFlags(id_strategy=by))
            server = DevicePluginServer(allocator, node)
            await server.start(folder / "plugin.sock")
            async with grpc.aio.insecure_channel(f"unix:{folder}/plugin.sock") as channel:
                kubelet = Kubelet(pb_grpc.DevicePluginStub(channel), server, api, folder, known, health, node)
                await kubelet.list_devices()
                yield kubelet
            await server.stop()


def gpu_pod(name: str, *units: int, card: object = 0, assumed: int = 1) -> dict[str, Any]:
    """A pod that the extender bound to the node."""
    written = {"IDX": str(card), "ASSIGNED": "false", "ASSUME_TIME": str(assumed)}
    limits = [{"limits": {"aliyun.com/gpu-mem": str(amount)}} for amount in units]
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "annotations": {f"ALIYUN_COM_GPU_MEM_{key}": value for key, value in written.items()},
        },
        "spec": {
            "nodeName": "rig",
            "containers": [{"name": f"c{i}", "resources": one} for i, one in enumerate(limits)],
        },
        "status": {"phase": "Pending"},
    }


def annotations_of(kubelet: Kubelet, name: str) -> dict[str, str]:
    """A pod's annotations now."""
    return dict(kubelet.api.pod(name)["metadata"]["annotations"])


def assume_time(pod: dict[str, Any]) -> str:
    """When the extender assumed it."""
    return str(pod["metadata"]["annotations"]["ALIYUN_COM_GPU_MEM_ASSUME_TIME"])


# The original's answers if no pod waits, and ours instead.
NOBODY = {
    "4 units: nobody asked for 4": "D3: success with a nonsense variable that the kubelet keeps for ever",
    "7 units: nobody, but there is one card only": "D4: the card goes to anybody and nothing is written down",
}


@pytest.mark.parametrize("name", ["isolation-off", "mib", "mixed-cards", "one-card", "two-cards"])
async def test_recorded_dialogue(name: str) -> None:
    """The plugin answers as recorded, but gives an error if no pod waits (D3, D4) and keeps the assume time (D1)."""
    recording = json.loads((RECORDED / f"{name}.json").read_text())
    unit = "MiB" if "--memory-unit=MiB" in recording["args"] else "GiB"
    labels = {"cgpu.disable.isolation": "true"} if name == "isolation-off" else {}
    async with plugin(recording["cards"], recording["pods"], unit=unit, labels=labels) as kubelet:
        per_card = list(recording["list"]["per_card"].values())
        if name == "mixed-cards":
            # Named: the original announces the first card's size for all (D5).
            assert (per_card, len(kubelet.devices)) == ([15, 15, 15], 15 + 15 + 11)
        else:
            assert sum(per_card) == len(kubelet.devices)
        assert set(kubelet.devices.values()) == set(recording["list"]["health"])
        times = {pod["metadata"]["name"]: assume_time(pod) for pod in recording["pods"]}
        for step in recording["allocate"]:
            if step["what"] in NOBODY:
                with pytest.raises(grpc.aio.AioRpcError, match=f"waits for {step['ids']} units"):
                    await kubelet.admit(step["ids"])
                continue
            ids, variables = await kubelet.admit(step["ids"])
            assert step["answer"]["containers"] == [variables]
            patched = next(call for call in step["api_calls"] if call["method"] == "PATCH")
            owner = patched["path"].rpartition("/")[2]
            await kubelet.start(f"uid-default-{owner}", ids)
            assert annotations_of(kubelet, owner)["ALIYUN_COM_GPU_MEM_ASSIGNED"] == "true"
            assert annotations_of(kubelet, owner)["ALIYUN_COM_GPU_MEM_ASSUME_TIME"] == times[owner]


@pytest.mark.parametrize("name", ["isolation-off", "mib", "mixed-cards", "one-card", "two-cards"])
async def test_recorded_start(name: str) -> None:
    """The count is written to the Node's status as recorded, now together with what each card is."""
    recording = json.loads((RECORDED / f"{name}.json").read_text())
    async with plugin(recording["cards"], []) as kubelet:
        (theirs,) = (call for call in recording["api_calls_at_start"] if call["method"] == "PATCH")
        ours, condition = (call for call in kubelet.api.calls if call["method"] == "PATCH")

        assert (ours["path"], ours["content_type"]) == (theirs["path"], theirs["content_type"])
        assert ours["body"]["status"] == theirs["body"]["status"]
        published = json.loads(ours["body"]["metadata"]["annotations"]["aliyun.com/gpushare-cards"])
        assert len(published["cards"]) == len(recording["cards"])
        assert condition["body"].keys() == {"status"}
        assert condition["body"]["status"].keys() == {"conditions"}


async def test_a_node_without_cards_has_an_empty_list() -> None:
    """The kubelet gets a first list from a plugin that found no card, so the node shows none."""
    async with plugin([], []) as kubelet:
        assert kubelet.devices == {}


async def test_ids_are_steered_onto_the_card_of_the_pod() -> None:
    """The container sees the card that the extender chose, by UUID unless a setting changes that (D27)."""
    async with plugin(["t4", "t4"], [gpu_pod("a", 3, card=1)], by="uuid") as kubelet:
        _, variables = await kubelet.admit(3)

        assert (variables["NVIDIA_VISIBLE_DEVICES"], variables["ALIYUN_COM_GPU_MEM_IDX"]) == (UUIDS[1], "1")


async def test_held_ids_stay_announced_until_their_pod_ends() -> None:
    """One list when the card fails and one when the pod ends; other changes of the pod send none."""
    async with plugin(["t4", "t4"], [gpu_pod("on-it", 3)]) as kubelet:
        ids, _ = await kubelet.admit(3)
        await kubelet.start("uid-on-it", ids)
        lists = kubelet.plugin.ListAndWatch(pb.Empty(), timeout=30)

        async def unhealthy() -> set[str]:
            return {one.ID for one in (await lists.read()).devices if one.health == "Unhealthy"}

        assert await unhealthy() == set()
        of_card = {f"gs-aaaaaaaa-{number}" for number in range(15)}
        kubelet.health.lose(UUIDS[0])
        kubelet.node.refresh()
        assert await unhealthy() == of_card - set(ids)
        (pod,) = kubelet.pods.in_admission_order()
        kubelet.pods.set(pod)
        kubelet.pods.remove(pod.metadata)
        assert await unhealthy() == of_card
        lists.cancel()


async def test_ids_of_several_cards_are_refused() -> None:
    """A kubelet that did not ask, or did not obey."""
    async with plugin(["t4", "t4"], [gpu_pod("a", 2)]) as kubelet:
        ids = [next(one for one in kubelet.devices if letter * 8 in one) for letter in "ab"]
        with pytest.raises(
            grpc.aio.AioRpcError, match="the kubelet chose ids of card 1, but the pod that waits has card 0"
        ):
            await kubelet.allocate(ids)


async def test_ids_chosen_without_us_find_the_pod_of_that_card() -> None:
    """Kubelets before 1.19 do not ask; the ids' card decides between equal pods."""
    pods = [gpu_pod("a", 2, card=0), gpu_pod("b", 2, card=1, assumed=2)]
    async with plugin(["t4", "t4"], pods) as kubelet:
        on_b = [one for one in kubelet.devices if "bbbbbbbb" in one][:2]
        variables = await kubelet.allocate(on_b)
        await kubelet.start("uid-b", on_b)

        assert (variables["ALIYUN_COM_GPU_MEM_IDX"], annotations_of(kubelet, "b")["ALIYUN_COM_GPU_MEM_ASSIGNED"]) == (
            "1",
            "true",
        )


@pytest.mark.promise("PR-005")
async def test_container_whose_owner_has_another_card_is_held() -> None:
    """An error here makes the kubelet try again; once the annotation is right the container starts."""
    pods = [gpu_pod("a", 2, card=0), gpu_pod("b", 2, card=1, assumed=2)]
    async with plugin(["t4", "t4"], pods) as kubelet:
        ids, _ = await kubelet.admit(2)
        with pytest.raises(grpc.aio.AioRpcError, match="default/b has ids of card 0, but its annotation names card 1"):
            await kubelet.start("uid-b", ids)

        (event,) = kubelet.api.events
        assert (event["involvedObject"]["name"], event["reason"], event["type"]) == ("b", "GPUShareHeld", "Warning")
        assert "names card 1" in event["message"]

        pods[1]["metadata"]["annotations"]["ALIYUN_COM_GPU_MEM_IDX"] = "0"
        await kubelet.plugin.PreStartContainer(pb.PreStartContainerRequest(devices_ids=ids))


async def test_pod_that_lost_its_annotations_gets_its_card_again() -> None:
    """The ids of its containers are the truth."""
    async with plugin(["t4", "t4"], [gpu_pod("a", 2, card=1)]) as kubelet:
        ids, _ = await kubelet.admit(2)
        del kubelet.api.pod("a")["metadata"]["annotations"]["ALIYUN_COM_GPU_MEM_IDX"]
        await kubelet.start("uid-a", ids)

        written = annotations_of(kubelet, "a")
        assert (written["ALIYUN_COM_GPU_MEM_IDX"], written["ALIYUN_COM_GPU_MEM_ASSIGNED"]) == ("1", "true")


async def test_ids_that_were_never_announced_pass() -> None:
    """Containers of the Go plugin restart under ours."""
    async with plugin(["t4"], []) as kubelet:
        await kubelet.plugin.PreStartContainer(pb.PreStartContainerRequest(devices_ids=[f"{UUIDS[0]}-_-0"]))


async def test_without_the_kubelets_book_the_answered_pod_is_the_owner() -> None:
    """An init container alone is in no book that shows names; what Allocate meant is what we know."""
    async with plugin(["t4"], [gpu_pod("a", 2)]) as kubelet:
        ids, _ = await kubelet.admit(2)
        await kubelet.plugin.PreStartContainer(pb.PreStartContainerRequest(devices_ids=ids))

        assert annotations_of(kubelet, "a")["ALIYUN_COM_GPU_MEM_ASSIGNED"] == "true"


async def test_ids_of_no_pod_are_held() -> None:
    """The plugin holds a container with ids of no pod, because neither the kubelet nor the plugin knows their pod."""
    async with plugin(["t4"], []) as kubelet:
        with pytest.raises(grpc.aio.AioRpcError, match="does not say yet"):
            await kubelet.plugin.PreStartContainer(pb.PreStartContainerRequest(devices_ids=list(kubelet.devices)[:2]))


async def test_an_api_server_that_stays_away_is_an_error_of_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Never a guess on what we knew before."""
    monkeypatch.setattr(node_view, "LIST_PAUSE_SECONDS", 0.01)
    async with plugin(["t4"], [gpu_pod("a", 2)]) as kubelet:
        kubelet.api.fault = lambda method, path: (500, {"kind": "Status", "message": "etcd is gone"})
        with pytest.raises(grpc.aio.AioRpcError, match="etcd is gone"):
            await kubelet.admit(2)


@pytest.mark.promise("DP-023")
async def test_a_pod_of_more_ids_than_its_status_can_hold_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod of more ids than its status can hold is refused with the reason and the way out. A pod of fewer ids goes on."""
    monkeypatch.setattr(devices, "MOST_IDS_OF_A_POD", 5)
    async with plugin(["t4"], [gpu_pod("fits", 5), gpu_pod("huge", 4, 2, assumed=2)]) as kubelet:
        ids, _ = await kubelet.admit(5)
        await kubelet.start("uid-fits", ids)
        with pytest.raises(grpc.aio.AioRpcError, match="a pod of 6 units of GiB .* --mode slots"):
            await kubelet.admit(4)


def test_a_list_takes_little_more_memory_than_its_ids() -> None:
    """A kubelet takes 128,000 of them, so no second list of devices may stand beside the message."""
    cards = tuple(CardFacts(number, uuid, "T4", 4000, 4000) for number, uuid in enumerate(UUIDS))
    node = SimpleNamespace(listeners=[], kept_ids=frozenset, cards=SimpleNamespace(cards=cards, mode="ids"))
    server = DevicePluginServer(cast("Allocator", object()), cast("NodeWriter", node))

    async def listed() -> int:
        context = cast("grpc.aio.ServicerContext[object, object]", None)
        return len((await anext(server.ListAndWatch(pb.Empty(), context))).devices)

    assert asyncio.run(listed()) == 4000 * len(UUIDS)
    assert bytes_of(lambda: asyncio.run(listed())) < 1.5 * bytes_of(lambda: devices.device_list(cards))


async def test_spare_slots_answer_calls_that_were_not_offered() -> None:
    """GetPreferredAllocation gets any ids, those that it must have first, and PreStartContainer lets the container start."""
    cards = SimpleNamespace(listeners=[], cards=SimpleNamespace(cards=()))
    server = DevicePluginServer(None, cast("NodeWriter", cards))
    asked = pb.ContainerPreferredAllocationRequest(
        available_deviceIDs=["gs-any-1", "gs-any-2"], must_include_deviceIDs=["gs-any-0"], allocation_size=2
    )
    with tempfile.TemporaryDirectory() as folder:
        await server.start(Path(folder) / "slot.sock")
        try:
            async with grpc.aio.insecure_channel(f"unix:{folder}/slot.sock") as channel:
                stub = pb_grpc.DevicePluginStub(channel)
                preferred = await stub.GetPreferredAllocation(pb.PreferredAllocationRequest(container_requests=[asked]))
                await stub.PreStartContainer(pb.PreStartContainerRequest(devices_ids=["gs-any-0"]))
        finally:
            await server.stop()

    assert list(preferred.container_responses[0].deviceIDs) == ["gs-any-0", "gs-any-1"]
