"""A validation's view of a cluster: its nodes and the room on their cards, and the pods that it may create."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shlex
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import pytest

from clusters.api.api_client import ApiError, Object
from clusters.api.resources import EVENTS, NODES, PODS
from clusters.api.waiting import NotReachedError, eventually, glimpse, meanwhile
from clusters.provider import Cluster, ClusterError
from e2e import commands, spec
from e2e.checkers.pod_requests import gpu_containers, units_of
from e2e.onsite.card_room import NodeRoom, room_on
from e2e.onsite.gaps import image_trouble, not_judged
from e2e.onsite.probe_pods import Carrier
from e2e.onsite.site_nodes import heartbeat, is_ready, why_closed
from e2e.onsite.tenancy import NAMESPACE, RUN_LABEL, Tenancy
from e2e.site.picture import DEVICE_PLUGIN, KUBE_SYSTEM, condition, labels_of, words_of

T = TypeVar("T")

_MOST_MIB: Final = 8192
USAGE: Final = "--usage"
# A wait is reported after this many seconds, and then each time that it is twice as long.
_QUIET_SECONDS: Final = 2.0
# Of the log of a pod that did not do what it should.
_LAST_LINES: Final = 5
_NOT_FOUND: Final = 404
# The condition of a pod that a scheduler preempts, or that is evicted.
_DISRUPTED: Final = "DisruptionTarget"


@dataclass(frozen=True, slots=True)
class Permissions:
    """The choices of an administrator: the most that a run has on the cluster at a time, and what it may do there."""

    units: int = 0
    """Those of a node; 0: as many as 8 GiB are."""
    pods: int = 4
    seconds: float = 300.0
    """How long a run waits for a pod (an image may have to come)."""
    image: str = ""
    """Any image with Python 3 for the pods; "" for the device plugin's own."""
    allow_disruption: bool = False
    restart_kubelet: str = ""
    """A command of this machine that restarts the kubelet of ``{node}``; "" if none may be restarted."""

    def units_on(self, mib_per_unit: int) -> int:
        """The most units on a node with units of this size."""
        return self.units or _MOST_MIB // mib_per_unit


class ForeignCluster:
    """One cluster.

    ``simulated_nodes`` have simulated cards. ``hides_cards``: a container's runtime hides the cards of others from it.
    ``runs_in_pods``: device plugins are pods of a DaemonSet; if not, the cluster kills and launches them, and those of
    ``usage_nodes`` look at what pods really use. ``report`` gets a line about each wait that is long.
    """

    def __init__(
        self,
        cluster: Cluster,
        tenancy: Tenancy,
        permissions: Permissions,
        *,
        simulated_nodes: Collection[str],
        hides_cards: bool,
        runs_in_pods: bool,
        usage_nodes: Collection[str],
        report: Callable[[str], None],
    ) -> None:
        self.api = cluster.api
        self._cluster = cluster
        self._runs_in_pods = runs_in_pods
        self._usage_nodes = usage_nodes
        self.permissions = permissions
        self.simulated_nodes = simulated_nodes
        self.hides_cards = hides_cards
        self._tenancy = tenancy
        self._report = report
        self._case = 0

    # Facts of the cluster

    async def node(self, name: str) -> Object:
        """One node."""
        return await self.api.get(NODES, name)

    async def room(self, name: str) -> NodeRoom:
        """The room on a node's cards now; leaves a gap if the node does not take pods."""
        return await self._room_beside(name, await self.api.list(PODS))

    async def _room_beside(self, name: str, pods: list[Object]) -> NodeRoom:
        node = await self.api.find(NODES, name)
        if node is None:
            not_judged(f"{name} has left the cluster")
        if why := why_closed(node, pods, self.permissions.pods):
            not_judged(f"{name} {why}")
        return room_on(node, pods)

    async def pod(self, name: str) -> Object:
        """A pod of ours; leaves a gap if others have removed it, as they may: our pods have a very low priority."""
        pod = await self.api.find(PODS, self._full(name), NAMESPACE)
        if pod is None:
            not_judged(f"pod {name} was removed by others")
        if pod["metadata"].get("deletionTimestamp"):
            conditions = {one["type"]: one.get("message", "") for one in pod["status"].get("conditions") or ()}
            not_judged(f"pod {name} was deleted by others: {conditions.get(_DISRUPTED, 'nothing shows why')}")
        return pod

    def _full(self, name: str) -> str:
        """The name in the cluster. Each case has its own, so a pod that does not go is in no later case's way."""
        return f"{name}-{self._case}"

    async def carrier(self, node: str) -> Carrier:
        """The image of our pods on a node, and the RuntimeClass of its device plugin, which needs NVIDIA's runtime as they do.

        Skips the case if no image is named and no device plugin has a usable one.
        """
        plugins = await self.plugins(node) or [{"spec": {"containers": [{"image": ""}]}}]
        pod = plugins[0]["spec"]
        image = self.permissions.image or pod["containers"][0]["image"]
        if not image:
            not_judged(
                f"no device plugin runs in a pod on {node} whose image could be used; name one with --probe-image"
            )
        return Carrier(image, pod.get("runtimeClassName", ""))

    async def plugins(self, node: str) -> list[Object]:
        """The pods of device plugins on a node, by the label that the original and ours have."""
        return await self.api.list(
            PODS, KUBE_SYSTEM, label_selector=f"component={DEVICE_PLUGIN}", field_selector=f"spec.nodeName={node}"
        )

    async def looks_at_usage(self, node: str) -> bool:
        """Does the node's device plugin compare what pods use of a card with what they booked?"""
        if not self._runs_in_pods:
            return node in self._usage_nodes
        containers = [one for plugin in await self.plugins(node) for one in plugin["spec"]["containers"]]
        return any(USAGE in words_of(container) for container in containers)

    # Steps of a case

    async def needs(
        self, node: str, units: int = 1, *, pods: int = 1, containers: int = 1, mib: int = 0, on_one_card: bool = False
    ) -> NodeRoom:
        """Skip the case unless these pods may be created and fit a node's cards together now; the room there.

        ``units`` and ``containers`` are those of each pod; ``mib`` is its memory, in place of ``units``.
        """
        pods_there = await self.api.list(PODS)
        left = [pod for pod in pods_there if self._is_left(pod)]
        if names := [pod["metadata"]["name"] for pod in left if _node_of(pod) == node]:
            not_judged(f"pod {names[0]} of an earlier case is still on {node}")
        room = await self._room_beside(node, pods_there)
        units = room.units_of(mib) if mib else units
        limits = self.permissions
        most = limits.units_on(room.mib_per_unit)
        if pods * units > most or pods + len(left) > limits.pods:
            not_judged(
                f"needs {pods * units} units in {pods} pods at a time: --max-units is {most}, "
                f"--max-pods is {limits.pods}, and {len(left)} pods of earlier cases are still there"
            )
        fitting = room.pods(units, containers=containers, on_one_card=on_one_card)
        if fitting < pods:
            where = "one card" if on_one_card else "its cards"
            not_judged(f"{node} has room on {where} for {fitting} pods of {units} units, and this case needs {pods}")
        return room

    def _is_left(self, pod: Object) -> bool:
        """Is it of an earlier case of this run, and could not be removed?"""
        is_ours = pod["metadata"]["namespace"] == NAMESPACE and labels_of(pod).get(RUN_LABEL) == self._tenancy.run
        return is_ours and not pod["metadata"]["name"].endswith(f"-{self._case}")

    async def create(self, manifest: Object) -> None:
        """Create a pod for which ``needs`` found room. Raises TenancyError if the namespace was lost."""
        manifest["metadata"]["name"] = self._full(manifest["metadata"]["name"])
        await self._tenancy.create(manifest)

    async def delete(self, name: str) -> None:
        """Delete a pod of ours and wait until it is gone."""
        async with meanwhile(self._report_wait(f"pod {name} is gone")):
            await self._tenancy.remove(self._full(name), seconds=self.permissions.seconds)

    @contextlib.asynccontextmanager
    async def clean(self) -> AsyncIterator[None]:
        """All pods that are created inside are gone behind."""
        self._case += 1
        ending = f"-{self._case}"
        try:
            yield
        finally:
            async with meanwhile(self._report_wait("the pods of the case are gone")):
                await self._tenancy.remove(ending=ending, seconds=self.permissions.seconds)

    async def replace_plugin(self, node: str) -> None:
        """End a node's device plugin, and wait until its next one runs and the node offers its memory again.

        Skips the case if the administrator does not allow it.
        """
        if not self._runs_in_pods:
            await self._cluster.kill("device_plugin", node)
            await self._cluster.launch("device_plugin", node)
            return
        if not self.permissions.allow_disruption:
            pytest.skip("the device plugin's pod is deleted with --allow-disruption only")
        plugins = await self.plugins(node)
        if not plugins:
            pytest.skip(f"no device plugin runs in a pod on {node}")
        await self._delete_plugin(node, plugins[0])

    async def _delete_plugin(self, node: str, plugin: Object) -> None:
        metadata = plugin["metadata"]
        offered = (await self.node(node))["status"]["allocatable"].get(spec.RESOURCE_MEMORY)
        await self._tenancy.check()
        await self.api.delete_exactly(PODS, plugin)

        async def is_back() -> bool:
            plugins = [pod for pod in await self.plugins(node) if pod["metadata"]["uid"] != metadata["uid"]]
            now = (await self.node(node))["status"]["allocatable"].get(spec.RESOURCE_MEMORY)
            return now == offered and any(is_ready(pod) for pod in plugins)

        await self.wait(is_back, bool, f"another plugin serves {node}")

    async def restart_kubelet(self, node: str) -> None:
        """Restart a node's kubelet, by the administrator's command if there is one, and wait until the node is ready again.

        Skips the case if the administrator does not allow it. Raises AssertionError if the command fails.
        """
        if self._runs_in_pods and not self.permissions.allow_disruption:
            pytest.skip("a kubelet is restarted with --allow-disruption only")
        await self._tenancy.check()
        if not self.permissions.restart_kubelet:
            try:
                await self._cluster.restart_kubelet(node)
            except ClusterError as error:
                pytest.skip(f"name a command with --restart-kubelet: {error}")
            return
        await self._run_command(node)

    async def _run_command(self, node: str) -> None:
        before = heartbeat(await self.node(node))
        command = [word.format(node=node) for word in shlex.split(self.permissions.restart_kubelet)]
        done = await commands.run(*command)
        assert done.code == 0, f"{shlex.join(command)} ended with {done.code}: {done.said}"

        async def is_back() -> bool:
            now = await self.node(node)
            offers = now["status"]["allocatable"].get(spec.RESOURCE_MEMORY, "0") != "0"
            return offers and heartbeat(now) != before and condition(now, "Ready") == "True"

        await self.wait(is_back, bool, f"{node} is ready again")

    async def wait(self, look: Callable[[], Awaitable[T]], good: Callable[[T], bool], what: str, pod: str = "") -> T:
        """``eventually``, for the longest time that the administrator gives, with reports of a long wait.

        Raises NotReachedError, with the story of ``pod``, if it is about a pod of ours.
        """
        try:
            async with meanwhile(self._report_wait(what)):
                return await eventually(look, good, what, seconds=self.permissions.seconds)
        except NotReachedError as error:
            if not pod:
                raise
            await self._check_room(await self.pod(pod))
            story = await self.story(pod)
            raise NotReachedError(f"after {self.permissions.seconds:.0f} s not reached: {what}: {story}") from error

    async def _report_wait(self, what: str) -> None:
        waited, pause = 0.0, _QUIET_SECONDS
        while True:
            await asyncio.sleep(pause)
            waited += pause
            pause = waited
            self._report(f"         waits until {what}: {waited:.0f} s, {self.permissions.seconds:.0f} s at most")

    async def runs(self, name: str) -> Object:
        """Wait until a pod of ours runs or has ended well; the pod. Raises NotReachedError with its events.

        Skips the case if its image cannot be used; so does ``ended``.
        """
        return await self._phase(name, "Running", "Succeeded")

    async def started(self, name: str) -> Object:
        """Wait until a pod of ours runs, or has ended, well or not; the pod."""
        return await self._phase(name, "Running", "Succeeded", "Failed")

    async def ended(self, name: str) -> Object:
        """Wait until a pod of ours has ended, well or not; the pod."""
        return await self._phase(name, "Succeeded", "Failed")

    async def _phase(self, name: str, *phases: str) -> Object:
        def is_settled(pod: Object) -> bool:
            return pod["status"].get("phase") in ("Succeeded", "Failed", *phases) or bool(image_trouble(pod))

        pod = await self.wait(lambda: self.pod(name), is_settled, f"pod {name} is {phases[0]}", name)
        if why := image_trouble(pod):
            not_judged(f"the image cannot be used: {why}; name one with --probe-image")
        if pod["status"]["phase"] not in phases:
            raise NotReachedError(await self.story(name))
        return pod

    async def _check_room(self, pod: Object) -> None:
        """Leave a gap if the pod waits because others took the room that it was created for."""
        if pod["spec"].get("nodeName"):
            return
        room, containers = await self.room(_node_of(pod)), len(gpu_containers(pod))
        if not room.pods(units_of(pod), containers=containers, on_one_card=True):
            not_judged(f"others took the room on {room.node} for pod {pod['metadata']['name']}")

    async def events(self, name: str, reason: str = "") -> list[str]:
        """The texts of the events about a pod of ours."""
        found = await self.api.list(EVENTS, NAMESPACE, field_selector=f"involvedObject.name={self._full(name)}")
        return [str(event["message"]) for event in found if reason in ("", event.get("reason"))]

    async def story(self, name: str) -> str:
        """A pod of ours in a line: its state with the reasons, its events, and the end of its containers' logs."""
        pod = await self.pod(name)
        parts = [glimpse(pod), f"events: {'; '.join(await self.events(name)) or 'none'}"]
        for container in pod["spec"]["containers"]:
            lines = (await self._log(name, container["name"])).splitlines()[-_LAST_LINES:]
            parts.append(f"log of {container['name']}: {' | '.join(lines) or 'nothing'}")
        return "; ".join(parts)

    async def lines(self, pod: str, container: str = "c0") -> list[Mapping[str, Any]]:
        """The JSON lines that a probe has printed so far."""
        lines = []
        for line in (await self._log(pod, container)).splitlines():
            # The last one may not be whole yet.
            with contextlib.suppress(ValueError):
                lines += [json.loads(line)] if line.startswith("{") else []
        return lines

    async def _log(self, pod: str, container: str) -> str:
        """The output of a container so far; "" if it has not started."""
        try:
            return await self.api.text(PODS.path(NAMESPACE, self._full(pod), "log"), {"container": container})
        except ApiError as error:
            if error.code not in (400, _NOT_FOUND):
                raise
            return ""


def _node_of(pod: Object) -> str:
    """The node of one of our pods, which it is pinned to."""
    terms = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    return str(terms["nodeSelectorTerms"][0]["matchFields"][0]["values"][0])
