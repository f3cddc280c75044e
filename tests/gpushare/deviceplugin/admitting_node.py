"""A node for the allocator: a real API over HTTP, cards, and a kubelet that admits pods in any order it likes.

The kubelet keeps its book as a real one does: the checkpoint is written after each Allocate, before the next question.
"""

from __future__ import annotations

import base64
import json
import random
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpushare.cli.plugin_flags import ContainerFlags
from gpushare.deviceplugin.allocation.allocate import Allocator
from gpushare.deviceplugin.core.announced_cards import PhysicalCard
from gpushare.deviceplugin.core.devices import device_list
from gpushare.deviceplugin.core.health import CardHealth, XidRules
from gpushare.deviceplugin.core.node_pods import NodePods
from gpushare.deviceplugin.kubelet_records import KubeletRecords
from gpushare.deviceplugin.node_status import NodeWriter
from gpushare.deviceplugin.proto import deviceplugin_pb2 as pb
from gpushare.kube.client import ApiClient
from gpushare.kube.event_recorder import EventRecorder
from gpushare.model.quantity import MemoryUnit
from tests.servers import StubApi, http_pool, serve

UUIDS = [f"GPU-{letter * 8}-0000-0000-0000-000000000000" for letter in "abcdef"]
MEMORY, SLOT = "aliyun.com/gpu-mem", "aliyun.com/gpu-slot"
_PREFIX = "ALIYUN_COM_GPU_MEM_"


@dataclass
class Line:
    """The devices of one container."""

    uid: str
    container: str
    ids: list[str]
    told: dict[str, str]


@dataclass
class AdmittingNode:
    """The node. ``units`` are the cards' sizes in GiB (in slots mode MiB)."""

    api: StubApi
    client: ApiClient
    folder: Path
    node: NodeWriter
    health: CardHealth
    settled_seconds: float = 0.0
    rules: ContainerFlags = field(default_factory=ContainerFlags)
    now: float = 0.0
    lines: list[Line] = field(default_factory=list)
    allocator: Allocator = field(init=False)
    has_checkpoint: bool = True

    def __post_init__(self) -> None:
        self.start_plugin()

    def start_plugin(self) -> None:
        """A new process: it knows nothing of what the one before it did."""
        events = EventRecorder(self.client, "test", lambda: 0.0, random.Random(len(self.api.calls)))
        book = KubeletRecords(self.folder / "none.sock", self.folder)
        self.pods = NodePods()
        self.allocator = Allocator(
            self.client, self.pods, self.node, book, events, rules=self.rules,
            clock_ns=lambda: 7, monotonic=lambda: self.now, settled_seconds=self.settled_seconds,
        )  # fmt: skip

    @property
    def resource(self) -> str:
        """The node's amounts by the kubelet's count."""
        return SLOT if self.node.cards.mode == "slots" else MEMORY

    def free(self) -> list[str]:
        """Free ids of healthy cards."""
        taken = {one for line in self.lines for one in line.ids}
        return [one for one, health in device_list(self.node.cards.cards) if health == "Healthy" and one not in taken]

    def write_book(self) -> None:
        """The device manager's file."""
        entries = [
            {
                "PodUID": line.uid, "ContainerName": line.container, "ResourceName": self.resource,
                "DeviceIDs": {"-1": line.ids},
                "AllocResp": base64.b64encode(pb.ContainerAllocateResponse(envs=line.told).SerializeToString()).decode(),
            }
            for line in self.lines
        ]  # fmt: skip
        if self.has_checkpoint:
            text = json.dumps({"Data": {"PodDeviceEntries": entries, "RegisteredDevices": {}}, "Checksum": 1})
            (self.folder / "kubelet_internal_checkpoint").write_text(text)

    async def admit(self, name: str) -> None:
        """All containers of a pod, as a kubelet does."""
        pod = self.pod(name)
        for container in pod["spec"]["containers"]:
            size = 1 if self.resource == SLOT else int(container["resources"]["limits"][MEMORY])
            ids = await self.allocator.prefer(self.free(), [], size)
            given = await self.allocator.allocate(ids)
            self.lines.append(Line(pod["metadata"]["uid"], container["name"], ids, dict(given.variables)))
            self.write_book()

    async def start(self, name: str) -> None:
        """Ask for each container of a pod whether it may start."""
        uid = self.pod(name)["metadata"]["uid"]
        for line in [line for line in self.lines if line.uid == uid]:
            await self.allocator.verify(line.ids)

    async def run(self, *names: str) -> None:
        """Admit and start each of these pods."""
        for name in names:
            await self.admit(name)
            await self.start(name)

    def end(self, name: str) -> None:
        """A pod is gone, and its ids are free."""
        pod = self.pod(name)
        self.api.pods.remove(pod)
        self.lines = [line for line in self.lines if line.uid != pod["metadata"]["uid"]]
        self.write_book()

    def pod(self, name: str) -> dict[str, Any]:
        """A pod as the API has it."""
        return self.api.pod(name)

    def written(self, name: str) -> dict[str, str]:
        """The annotations of a pod, by their short names."""
        annotations = self.pod(name)["metadata"].get("annotations", {})
        return {key.removeprefix(_PREFIX): value for key, value in annotations.items()}

    def card(self, name: str) -> str:
        """The card and the mark that are written on a pod."""
        written = self.written(name)
        return written.get("IDX", "-") + (f"+{written['REPAIR']}" if "REPAIR" in written else "")

    def has(self, name: str) -> set[int]:
        """The cards in the variables of a pod's containers."""
        uid = self.pod(name)["metadata"]["uid"]
        return {int(one) for line in self.lines if line.uid == uid for one in line.told[f"{_PREFIX}IDX"].split(",")}


def container(name: str, units: int) -> dict[str, Any]:
    """A container with this request."""
    return {"name": name, "resources": {"limits": {MEMORY: str(units), SLOT: "1"}}}


_VERSIONS = iter(range(100, 10**9))


def gpu_pod(
    name: str, *units: int, card: object = 0, init: int = 0, annotations: dict[str, str] | None = None
) -> dict[str, Any]:
    """A pod that our extender bound to a card, after the pods that were made before it."""
    written = {"IDX": str(card), "ASSIGNED": "false", "ASSUME_TIME": "1", "EXTENDER": "gpushare/1"}
    chosen = {} if card is None else {f"{_PREFIX}{key}": value for key, value in written.items()}
    return {
        "metadata": {
            "name": name, "namespace": "d", "uid": f"uid-{name}", "resourceVersion": str(next(_VERSIONS)),
            "annotations": {**chosen, **(annotations or {})},
        },
        "spec": {
            "nodeName": "rig",
            "initContainers": [container("init", init)] if init else [],
            "containers": [container(f"c{number}", amount) for number, amount in enumerate(units)],
        },
        "status": {"phase": "Pending"},
    }  # fmt: skip


@asynccontextmanager
async def stage(
    pods: list[dict[str, Any]],
    sizes: tuple[int, ...] = (14, 14, 10),
    *,
    slots: int = 0,
    kubelet: str = "v1.36.0",
    unit: str = "GiB",
    labels: dict[str, str] | None = None,
    **more: Any,
) -> AsyncIterator[AdmittingNode]:
    """A node of cards of these sizes, and its pods."""
    metadata = {"name": "rig", "labels": labels or {}}
    described = {"metadata": metadata, "status": {"capacity": {}, "nodeInfo": {"kubeletVersion": kubelet}}}
    api = StubApi(nodes=[described], pods=pods)
    mib = 1 if slots else 1024
    physical = [PhysicalCard(number, UUIDS[number], "T4", size * mib) for number, size in enumerate(sizes)]
    with tempfile.TemporaryDirectory(prefix="gs-", dir="/tmp") as name:
        async with serve(api) as url, http_pool(url) as http:
            client = ApiClient(http)
            health = CardHealth(XidRules(), 0)
            node = NodeWriter(
                client, "rig", MemoryUnit.parse(unit), "boot", now=lambda: 0.0, health=health, slots=slots
            )
            await node.prepare()
            node.begin(physical)
            yield AdmittingNode(api, client, Path(name), node, health, **more)
