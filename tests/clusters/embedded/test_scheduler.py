"""The whole scheduler: against the embedded API server and a local extender, both over real HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import Any

import pytest

from clusters.api.api_client import ApiClient, ApiError
from clusters.api.connection import Connection
from clusters.api.resources import CONFIG_MAPS, EVENTS, NODES, PODS
from clusters.api.waiting import eventually
from clusters.embedded.apiserver.server import EmbeddedApi
from clusters.embedded.scheduler import Scheduler
from clusters.embedded.scheduling.configuration import Configuration, ExtenderConfiguration, ManagedResource
from e2e.parity.recording_extender import Answer, Call, RecordingExtender, accept_all
from tests.clusters.embedded.scheduling.scheduling_objects import MEMORY, make_node, make_pod
from tests.embedded_api import client_of

REASON = "Insufficient GPU Memory in one device"
# Long enough to be seen, short enough to be waited for.
BACKOFF: dict[str, Any] = {"initial_backoff_seconds": 0.05, "max_backoff_seconds": 0.2}
# Against hangs only.
SECONDS = 30.0


class Cluster:
    """An API server, an extender that binds, and a scheduler between them."""

    def __init__(self, server: EmbeddedApi, api: ApiClient, extender: RecordingExtender) -> None:
        self.server, self.api, self.extender = server, api, extender
        self.port = int(server.address.rpartition(":")[2])
        self.configuration = Configuration(
            extenders=(
                ExtenderConfiguration(
                    url_prefix=extender.url,
                    filter_verb="filter",
                    bind_verb="bind",
                    node_cache_capable=True,
                    managed_resources=(ManagedResource(name=MEMORY),),
                ),
            ),
            **BACKOFF,
        )
        self.stack = AsyncExitStack()
        extender.respond = self.respond
        self.refuse = False

    async def respond(self, call: Call) -> Answer:
        """A filter that refuses all while ``refuse`` is set, and a bind that binds."""
        if call.verb != "bind":
            names = call.message["NodeNames"]
            refused = dict.fromkeys(names, REASON) if self.refuse else {}
            return Answer({"NodeNames": [] if self.refuse else names, "FailedNodes": refused, "Error": ""})
        return await self.bind(call)

    async def bind(self, call: Call) -> Answer:
        message = call.message
        path = PODS.path(message["PodNamespace"], message["PodName"], "binding")
        metadata = {"name": message["PodName"], "namespace": message["PodNamespace"], "uid": message["PodUID"]}
        target = {"apiVersion": "v1", "kind": "Node", "name": message["Node"]}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
        try:
            await self.api.request("POST", path, body=body)
        except ApiError as error:
            return Answer({"Error": error.message})
        return Answer({"Error": ""})

    async def schedule(self) -> Scheduler:
        scheduler = Scheduler(self.api, self.configuration, seed=1, now=lambda: datetime.now(UTC))
        await scheduler.start()
        self.stack.push_async_callback(scheduler.stop)
        return scheduler

    async def add_node(self, name: str = "n1", units: int = 10) -> None:
        node = make_node(name, {MEMORY: str(units)})
        node["status"]["capacity"] = node["status"]["allocatable"]
        status = node["status"]
        await self.api.create(node)
        await self.api.patch(NODES, name, {"status": status}, subresource="status")
        # No controllers run here that would see that it is ready.
        await self.api.patch(NODES, name, {"spec": {"taints": None}})

    async def add_pod(self, name: str = "p1", units: int = 2, **spec: Any) -> None:
        await self.api.create(make_pod(name, {MEMORY: str(units)} if units else {}, **spec))

    async def node_of(self, name: str = "p1") -> str:
        return (await self.api.get(PODS, name, "default"))["spec"].get("nodeName") or ""

    async def bound(self, name: str = "p1") -> str:
        return await eventually(lambda: self.node_of(name), bool, f"{name} is bound", seconds=SECONDS)

    async def condition(self, name: str = "p1") -> dict[str, Any]:
        conditions = (await self.api.get(PODS, name, "default"))["status"].get("conditions") or []
        return next((dict(each) for each in conditions if each["type"] == "PodScheduled"), {})

    async def waits(self, reason: str, name: str = "p1") -> dict[str, Any]:
        return await eventually(
            lambda: self.condition(name),
            lambda seen: seen.get("reason") == reason,
            f"{name}: {reason}",
            seconds=SECONDS,
        )

    async def event(self, reason: str, name: str = "p1", message: str = "") -> dict[str, Any]:
        async def look() -> list[dict[str, Any]]:
            return [
                each
                for each in await self.api.list(EVENTS, "default")
                if (each["reason"], each["involvedObject"]["name"]) == (reason, name) and message in each["message"]
            ]

        return (await eventually(look, bool, f"event {reason} on {name}", seconds=SECONDS))[0]

    async def calls(self, verb: str, count: int) -> None:
        async def look() -> int:
            return self.extender.verbs().count(verb)

        await eventually(look, lambda seen: seen >= count, f"{count} calls of {verb}", seconds=SECONDS)


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    server = EmbeddedApi()
    async with client_of(server) as api, RecordingExtender() as extender:
        cluster = Cluster(server, api, extender)
        try:
            yield cluster
        finally:
            await cluster.stack.aclose()
            await cluster.server.stop()


async def test_a_pod_goes_through_filter_and_bind_of_the_extender(cluster: Cluster) -> None:
    """The event names the node."""
    await cluster.add_node()
    await cluster.schedule()
    await cluster.add_pod()

    assert await cluster.bound() == "n1"
    assert ["filter", "bind"] == cluster.extender.verbs()
    assert (await cluster.event("Scheduled"))["message"] == "Successfully assigned default/p1 to n1"


async def test_wishes_that_are_not_imitated_are_named(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    """The pod is bound without a look at them, and the log says so."""
    await cluster.add_node()
    await cluster.schedule()
    port = {"containerPort": 80, "hostPort": 80}
    containers = [{"name": "main", "image": "none", "ports": [port]}]
    spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
    spread["labelSelector"] = {"matchLabels": {"app": "x"}}
    await cluster.add_pod(units=0, containers=containers, topologySpreadConstraints=[spread])
    await cluster.bound()

    assert "fields=['topologySpreadConstraints', 'hostPort']" in caplog.text


async def test_a_refused_pod_says_why_and_waits_for_room(cluster: Cluster) -> None:
    """The condition and the event carry the counted reasons; a deleted neighbour is another try."""
    await cluster.add_node()
    await cluster.schedule()
    await cluster.add_pod("big", units=8)
    await cluster.bound("big")
    await cluster.add_pod(units=4)

    expected = (
        f"0/1 nodes are available: 1 Insufficient {MEMORY}. no new claims to deallocate, "
        "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
    )
    assert (await cluster.waits("Unschedulable"))["message"] == expected
    assert (await cluster.event("FailedScheduling"))["message"] == expected

    await cluster.api.delete(PODS, "big", "default", grace_seconds=0)
    assert await cluster.bound() == "n1"


async def test_refused_pod_wakes_by_a_node_and_not_by_a_config_map(cluster: Cluster) -> None:
    """A node's annotation is an event to the scheduler, a ConfigMap is none."""
    await cluster.add_node()
    cluster.refuse = True
    await cluster.schedule()
    await cluster.add_pod()
    assert REASON in (await cluster.waits("Unschedulable"))["message"]
    # Its own condition is a change, too.
    await cluster.calls("filter", 2)

    await cluster.api.create(
        {"apiVersion": "v1", "kind": CONFIG_MAPS.kind, "metadata": {"name": "unhealthy"}}, "default"
    )
    await cluster.add_pod("other", units=0, nodeSelector={"no": "node"})
    await cluster.waits("Unschedulable", "other")
    assert cluster.extender.verbs() == ["filter", "filter"]

    cluster.refuse = False
    await cluster.api.patch(NODES, "n1", {"metadata": {"annotations": {"cards": "healed"}}})
    assert await cluster.bound() == "n1"


async def test_the_api_server_may_come_late(cluster: Cluster) -> None:
    """The scheduler lists again until the server answers."""
    await cluster.server.stop()
    scheduler = await cluster.schedule()
    cluster.server = EmbeddedApi()
    await cluster.server.start(cluster.port)
    await scheduler.wait_synced()
    await cluster.add_node()
    await cluster.add_pod()

    assert await cluster.bound() == "n1"


async def test_a_pod_counts_on_its_node_while_its_bind_is_under_way(cluster: Cluster) -> None:
    """Five pods of 4 on 10: two are being bound, the others are refused before any bind has ended."""
    release = asyncio.Event()

    async def slow(call: Call) -> Answer:
        if call.verb == "bind":
            await release.wait()
            return await cluster.bind(call)
        return await accept_all(call)

    cluster.extender.respond = slow
    await cluster.add_node(units=10)
    await cluster.schedule()
    for number in range(5):
        await cluster.add_pod(f"p{number}", units=4)
    for number in range(2, 5):
        await cluster.waits("Unschedulable", f"p{number}")

    assert cluster.extender.verbs().count("bind") == 2
    release.set()
    await cluster.bound("p0")
    await cluster.bound("p1")


async def test_a_failed_bind_gives_the_place_back_and_is_tried_again(cluster: Cluster) -> None:
    """The pod has SchedulerError with the extender's text until a bind succeeds."""
    fail = asyncio.Event()
    fail.set()

    async def respond(call: Call) -> Answer:
        if call.verb != "bind":
            return await accept_all(call)
        if fail.is_set():
            return Answer({"Error": "card is gone"})
        return await cluster.bind(call)

    cluster.extender.respond = respond
    await cluster.add_node(units=10)
    await cluster.schedule()
    await cluster.add_pod(units=10)

    assert (await cluster.waits("SchedulerError"))["message"] == "card is gone"
    await cluster.calls("bind", 3)

    fail.clear()
    assert await cluster.bound() == "n1"


async def test_a_pod_that_makes_no_sense_does_not_stop_the_others() -> None:
    """An API server that validates nothing hands over a pod with an affinity that breaks the cycle; the next one is bound."""
    affinity = {"matchExpressions": [{"key": "a", "operator": "Near", "values": ["b"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [affinity]}}
    pods = [make_pod("broken", affinity={"nodeAffinity": required}), make_pod("good")]
    items = {"nodes": [make_node()], "pods": pods}

    async def respond(call: Call) -> Answer:
        if "watch=1" in call.verb:
            await asyncio.Event().wait()
        kind = call.verb.split("?")[0]
        return Answer({"metadata": {"resourceVersion": "1"}, "items": items.get(kind, [])})

    async with RecordingExtender(respond) as server:
        http = Connection(f"http://127.0.0.1:{server.port}")
        scheduler = Scheduler(ApiClient(http), Configuration(), seed=1, now=lambda: datetime.now(UTC))
        await scheduler.start()

        async def look() -> list[str]:
            return [call.message["metadata"]["name"] for call in server.calls if call.verb == "binding"]

        await eventually(look, lambda names: names == ["good"], "the good pod is bound", seconds=SECONDS)

        async def reported() -> list[str]:
            return [
                call.message["message"] for call in server.calls if call.verb == "events" and "Near" in str(call.body)
            ]

        await eventually(reported, bool, "the broken pod has an event that names the operator", seconds=SECONDS)
        await scheduler.stop()
        await http.close()
