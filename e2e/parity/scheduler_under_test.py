"""The shared means of the scheduler's cases: nodes and pods of one case, and their state in the API."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Final

from clusters.api.waiting import eventually
from e2e.parity.parity_requests import MEMORY, Object, binding, pod
from e2e.parity.recording_extender import Answer, Call, RecordingExtender
from e2e.parity.sides import Side

# Short, so that a case does not wait long for another try; no number of seconds is ever judged.
BACKOFF: Final = {"podInitialBackoffSeconds": 1, "podMaxBackoffSeconds": 1}


def entry(extender: RecordingExtender, **fields: Any) -> Object:
    """The extender in a scheduler's configuration: a filter with a node cache for gpu-mem, unless ``fields`` say otherwise.

    A field of None is left out.
    """
    chosen = {
        "urlPrefix": extender.url,
        "filterVerb": "filter",
        "nodeCacheCapable": True,
        "managedResources": [{"name": MEMORY}],
        **fields,
    }
    return {name: value for name, value in chosen.items() if value is not None}


class SchedulerUnderTest:
    """One side, as one case uses it. Everything is removed when the stage ends."""

    def __init__(self, side: Side) -> None:
        self.side = side
        self.extender = RecordingExtender()
        self._pods = f"/api/v1/namespaces/{side.namespace}/pods"
        self._nodes: list[str] = []
        self._markers = itertools.count(1)

    async def node(
        self,
        name: str,
        units: int | None = 10,
        *,
        allocatable: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        taints: Sequence[Mapping[str, str]] = (),
        unschedulable: bool = False,
    ) -> None:
        """A node that is ready, has ``units`` of gpu-mem (None: not even the resource), and no kubelet."""
        amounts = {"cpu": "8", "memory": "32Gi", "pods": "110", **(allocatable or {})}
        if units is not None:
            amounts[MEMORY] = str(units)
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        body = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "labels": {"kubernetes.io/hostname": name, **(labels or {})},
                # A controller would write it, at a moment of its own.
                "annotations": {"node.alpha.kubernetes.io/ttl": "0"},
            },
            "status": {
                "allocatable": amounts,
                "capacity": amounts,
                # A heartbeat that is not new would be one that has stopped.
                "conditions": [
                    {"type": "Ready", "status": "True", "lastHeartbeatTime": now, "lastTransitionTime": now}
                ],
            },
        }
        self._nodes.append(name)
        await self._do("POST", "/api/v1/nodes", body=body)
        # The API server taints a new node until its kubelet speaks, which it has not.
        spec: Object = {"taints": list(taints) or None, "unschedulable": unschedulable or None}
        await self.change_node(name, {"spec": spec})

    async def change_node(self, name: str, patch: Object, *, status: bool = False) -> None:
        await self._patch(f"/api/v1/nodes/{name}{'/status' if status else ''}", patch)

    async def pod(
        self,
        name: str,
        units: int | str = 2,
        *,
        metadata: Mapping[str, Any] | None = None,
        resources: Mapping[str, Any] | None = None,
        **spec: Any,
    ) -> str:
        """A pod that asks for ``units`` of gpu-mem; its uid. With a ``nodeName`` it is on that node from the start."""
        limits = {MEMORY: str(units)} if units != 0 else {}
        container = {"name": "main", "image": "none", "resources": resources or {"limits": limits}}
        body = {
            "metadata": {"name": name, **(metadata or {})},
            "spec": {"containers": [container], "terminationGracePeriodSeconds": 0, **spec},
        }
        return str((await self._do("POST", self._pods, body=body))["metadata"]["uid"])

    async def delete_pod(self, name: str) -> None:
        await self._do("DELETE", f"{self._pods}/{name}", body={"gracePeriodSeconds": 0})

    async def change_pod(self, name: str, patch: Object, *, status: bool = False) -> None:
        await self._patch(f"{self._pods}/{name}{'/status' if status else ''}", patch)

    async def get_pod(self, name: str) -> Object:
        """The pod as the API server has it."""
        return await self._do("GET", f"{self._pods}/{name}")

    async def pods(self) -> dict[str, str]:
        """The pods that are there, each with its node or the empty string."""
        items = (await self._do("GET", self._pods))["items"]
        return {item["metadata"]["name"]: item["spec"].get("nodeName", "") for item in items}

    async def bound(self, name: str) -> str:
        """The node to which the pod has come."""

        async def look() -> str:
            return str((await self.get_pod(name))["spec"].get("nodeName") or "")

        return await eventually(look, bool, f"{self.side.name}: {name} is bound")

    async def condition(
        self, name: str, *, text: str = "", kind: str = "PodScheduled", status: str = "False"
    ) -> Object:
        """The condition of the pod, once it has that status and a message with ``text`` in it; without its times."""

        async def look() -> Object:
            conditions = (await self.get_pod(name))["status"].get("conditions") or []
            return next((dict(each) for each in conditions if each["type"] == kind), {})

        seen = await eventually(
            look,
            lambda it: it.get("status") == status and text in it.get("message", ""),
            f"{self.side.name}: {name} has {kind}={status} with {text!r}",
        )
        return {key: value for key, value in seen.items() if not key.startswith("last")}

    async def event(self, name: str, reason: str, *, text: str = "") -> Object:
        """The text of an event about the pod, once there is one with this reason and ``text`` in its note."""

        async def look() -> list[Object]:
            found = (await self._do("GET", f"/api/v1/namespaces/{self.side.namespace}/events"))["items"]
            return [each for each in found if (each["reason"], each["involvedObject"]["name"]) == (reason, name)]

        def fits(found: list[Object]) -> bool:
            return any(text in each["message"] for each in found)

        found = await eventually(look, fits, f"{self.side.name}: event {reason} about {name} with {text!r}")
        event = next(each for each in found if text in each["message"])
        # The count so far depends on the moment.
        for volatile in ("metadata", "series", "count"):
            event.pop(volatile, None)
        return event

    async def calls(self, verb: str, count: int = 1, *, extender: RecordingExtender | None = None) -> list[Call]:
        """The calls of a verb, once there are ``count``."""
        asked = extender or self.extender

        async def look() -> list[Call]:
            return asked.of(verb)

        return await eventually(look, lambda seen: len(seen) >= count, f"{self.side.name}: {count} calls of {verb}")

    async def bind(self, call: Call) -> Answer:
        """The work of an extender that binds: POST the binding, and return the result."""
        asked = call.message
        body = binding(asked["PodName"], asked["Node"], uid=asked["PodUID"])
        answer = await self.side.call("POST", f"{self._pods}/{asked['PodName']}/binding", body=body)
        return Answer({"Error": "" if answer.code == 201 else str(answer.body)})

    async def priority(self, value: int) -> str:
        """The name of a PriorityClass with that value; all cases share them, and they stay."""
        name = f"level-{value}"
        body = {"metadata": {"name": name}, "value": value, "description": "for cases"}
        answer = await self.side.call("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", body=body)
        assert answer.code in (201, 409), answer.body
        await eventually(lambda: self._knows(name), bool, f"{self.side.name} admits pods of PriorityClass {name}")
        return name

    async def _knows(self, priority: str) -> bool:
        """Is the class known to what admits pods? The real one reads it from a watch."""
        body = pod("probe", {"priorityClassName": priority})
        return (await self.side.call("POST", self._pods, body=body, params={"dryRun": "All"})).code == 201

    async def settle(self) -> None:
        """Return once the scheduler has done all that it had to do before this call.

        Two pods that fit nowhere go through it, one after the other; they are never assigned, so they wake no pod.
        """
        for _ in range(2):
            name = f"marker-{next(self._markers)}"
            await self.pod(name, 0, nodeSelector={"no": "node"})
            await self.condition(name, text=" ")
            await self.delete_pod(name)

    async def _patch(self, path: str, patch: Object) -> None:
        await self._do("PATCH", path, body=patch, content_type="application/merge-patch+json")

    def scheduler(self, configuration: Object | None = None, **fields: Any) -> AbstractAsyncContextManager[None]:
        """The side's scheduler at work with this stage's extender; ``fields`` are ``entry``'s.

        A scheduler reads nodes and pods from two watches: it knows each node that was there before it started, and may try
        a pod before it knows a node, or a change of one, that came later.
        """
        extenders = [entry(self.extender, **fields)]
        return self.side.scheduler({**BACKOFF, "extenders": extenders, **(configuration or {})})

    async def close(self) -> None:
        """Remove the pods and nodes of the case."""
        for name in await self.pods():
            await self.side.call("DELETE", f"{self._pods}/{name}", body={"gracePeriodSeconds": 0})
        for name in self._nodes:
            await self.side.call("DELETE", f"/api/v1/nodes/{name}")

    async def _do(self, method: str, path: str, **arguments: Any) -> Object:
        answer = await self.side.call(method, path, **arguments)
        if answer.code >= 400:
            raise AssertionError(f"{self.side.name}: {method} {path}: {answer.code} {answer.body}")
        return dict(answer.body)


@asynccontextmanager
async def stage(side: Side) -> AsyncIterator[SchedulerUnderTest]:
    """A stage with its extender running, and no scheduler yet."""
    it = SchedulerUnderTest(side)
    async with it.extender:
        try:
            yield it
        finally:
            await it.close()


@asynccontextmanager
async def play(
    side: Side, nodes: Mapping[str, int | None] | None = None, *, configuration: Object | None = None, **fields: Any
) -> AsyncIterator[SchedulerUnderTest]:
    """A stage with nodes (name to units) and the scheduler at work with one extender; ``fields`` are ``entry``'s."""
    async with stage(side) as it:
        await asyncio.gather(*(it.node(name, units) for name, units in (nodes or {}).items()))
        async with it.scheduler(configuration, **fields):
            yield it
