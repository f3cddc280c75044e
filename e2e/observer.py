"""A case's view of a cluster: pods, books, and the containers' variables, through the interfaces that users have."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from clusters.api.api_client import ApiClient, ApiError, Object
from clusters.api.connection import Answer, Connection
from clusters.api.resources import EVENTS, NAMESPACES, NODES, PODS, SERVICE_ACCOUNTS
from clusters.api.waiting import DEFAULT_SECONDS, eventually, glimpse, meanwhile, until
from clusters.provider import Cluster, NodeSpec
from clusters.providers import Choices, make_cluster
from clusters.targets import Target
from e2e import spec
from e2e.builders import binding
from e2e.checkers.overcommit import Sizes, check_api, check_containers, check_inspect
from e2e.checkers.pod_requests import gpu_containers
from e2e.checkers.right_card import check_pod


class Observer:
    """One namespace of one cluster; a unit of its books is this number of MiB."""

    def __init__(self, cluster: Cluster, namespace: str, *, mib_per_unit: int = spec.MIB_PER_UNIT) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self._mib_per_unit = mib_per_unit
        self._http = Connection()

    async def close(self) -> None:
        """Delete the namespace's pods, wait until they are gone, and close."""
        async with self._http:
            await self.clear()
            await self.cluster.api.delete(NAMESPACES, self.namespace)

    async def clear(self) -> None:
        """Delete the namespace's pods, and wait until they are gone."""
        await asyncio.gather(*(self.delete(pod["metadata"]["name"], 0) for pod in await self.pods()))
        await self.are_gone()

    async def create(self, *manifests: dict[str, Any]) -> None:
        """Create all together."""
        await asyncio.gather(*(self.cluster.api.create(manifest, self.namespace) for manifest in manifests))

    async def run(self, *manifests: dict[str, Any], seconds: float = DEFAULT_SECONDS) -> list[Object]:
        """Create all together, and wait until they run; the pods."""
        await self.create(*manifests)
        return await self.running(*(manifest["metadata"]["name"] for manifest in manifests), seconds=seconds)

    async def bind(self, pod: str, node: str, **metadata: Any) -> Any:
        """Bind a pod as an extender does: annotations come with the Binding."""
        path = PODS.path(self.namespace, pod, "binding")
        return await self.cluster.api.request("POST", path, body=binding(pod, node, **metadata))

    async def delete(self, name: str, grace_seconds: int | None = None) -> None:
        """Delete a pod; its owner may have been quicker."""
        try:
            await self.cluster.api.delete(PODS, name, self.namespace, grace_seconds=grace_seconds)
        except ApiError as error:
            if error.code != 404:
                raise

    async def pods(self) -> list[Object]:
        """The pods of the namespace."""
        return await self.cluster.api.list(PODS, self.namespace)

    async def pod(self, name: str) -> Object:
        """One pod."""
        return await self.cluster.api.get(PODS, name, self.namespace)

    async def running(self, *names: str, seconds: float = DEFAULT_SECONDS) -> list[Object]:
        """Wait until these pods run; the pods. Raises AssertionError immediately if one of them failed."""

        def all_run(pods: list[Object]) -> bool:
            phases = {pod["metadata"]["name"]: pod["status"].get("phase") for pod in pods}
            # A pod that failed never runs: no need to wait for it.
            failed = [glimpse(pod) for pod in pods if phases[pod["metadata"]["name"]] == "Failed"]
            if any(phases.get(name) == "Failed" for name in names):
                raise AssertionError("; ".join(failed))
            return all(phases.get(name) == "Running" for name in names)

        pods = await eventually(self.pods, all_run, f"{', '.join(names)} run", seconds=seconds)
        return [next(pod for pod in pods if pod["metadata"]["name"] == name) for name in names]

    async def reaches(self, name: str, *phases: str) -> Object:
        """Wait until a pod is in one of these phases; the pod."""
        what = f"{name} is {' or '.join(phases)}"
        return await eventually(lambda: self.pod(name), lambda pod: pod["status"].get("phase") in phases, what)

    async def are_gone(self, *names: str) -> None:
        """Wait until there are no such pods; no pods at all if none is named."""

        def none_is_there(pods: list[Object]) -> bool:
            return not any(pod["metadata"]["name"] in names or not names for pod in pods)

        await eventually(self.pods, none_is_there, f"{', '.join(names) or 'the pods'} of {self.namespace} are gone")

    @contextlib.asynccontextmanager
    async def watching(self, *, field_selector: str | None = None) -> AsyncIterator[list[tuple[str, Object]]]:
        """The events of a watch of the namespace's pods; inside, it has shown all that is there (``SYNCED``)."""
        seen: list[tuple[str, Object]] = []

        async def look_on() -> None:
            async for event in self.cluster.api.watch(PODS, self.namespace, field_selector=field_selector):
                seen.append(event)

        async with meanwhile(look_on()):
            await until(lambda: [kind for kind, _ in seen], lambda kinds: "SYNCED" in kinds, "the watch is synced")
            yield seen

    async def waits_because(self, name: str, reason: str) -> str:
        """Wait until an event has the reason why a pod is not scheduled; the event's text."""

        seen = await eventually(
            lambda: self.events(name, "FailedScheduling"),
            lambda found: any(reason in text for text in found),
            f"{name} waits: {reason}",
        )
        return next(text for text in seen if reason in text)

    async def variables(self, pod: Object) -> list[dict[str, str]]:
        """The variables of each GPU container of a pod, from its log; init containers first."""
        path = PODS.path(self.namespace, pod["metadata"]["name"], "log")
        given = []
        for container in gpu_containers(pod):
            log = await self._log(path, container.name)
            given.append(dict(line.split("=", 1) for line in log.splitlines() if "=" in line))
        return given

    async def _log(self, path: str, container: str) -> str:
        """Wait until a container has printed its variables: it runs before that, and a new kubelet does not know its pods yet."""

        async def read() -> str:
            try:
                return await self.cluster.api.text(path, {"container": container})
            except ApiError as error:
                if error.code not in (400, 404):
                    raise
                return ""

        # They are sorted: this one comes last.
        last = f"{spec.ENV_VISIBLE}="
        return await eventually(read, lambda log: last in log, f"{path} of {container} has {last}")

    async def restart(self, node: str, what: str) -> None:
        """Restart a node's ``plugin``, its ``kubelet``, or ``both``: then the kubelet comes up first."""
        if what != "kubelet":
            await self.cluster.kill("device_plugin", node)
        if what != "plugin":
            await self.cluster.restart_kubelet(node)
        if what != "kubelet":
            await self.cluster.launch("device_plugin", node)

    async def allocatable(self, node: str) -> str:
        """The memory that pods may use on a node, in units."""
        status = (await self.cluster.api.get(NODES, node))["status"]
        return str((status.get("allocatable") or {}).get(spec.RESOURCE_MEMORY, "0"))

    async def shows(self, node: str, units: str, *, seconds: float = DEFAULT_SECONDS) -> None:
        """Wait until pods may use this number of units of a node."""
        what = f"pods may use {units} units of {node}"
        await eventually(lambda: self.allocatable(node), lambda seen: seen == units, what, seconds=seconds)

    async def events(self, pod: str, reason: str = "") -> list[str]:
        """The texts of the events about a pod, and any other pod of that name; only those with this reason, if one is given."""
        found = await self.cluster.api.list(EVENTS, self.namespace, field_selector=f"involvedObject.name={pod}")
        return [str(event["message"]) for event in found if reason in ("", event.get("reason"))]

    async def event_text(self, pod: str, reason: str) -> str:
        """Wait for an event with this reason; its text."""
        return (await eventually(lambda: self.events(pod, reason), bool, f"an event {reason} on {pod}"))[0]

    async def inspect(self, path: str = "") -> Any:
        """The extender's book."""
        response = await self._http.request("GET", self.cluster.extender_url() + spec.INSPECT + path)
        return response.json()

    async def post(self, verb: str, body: bytes | str) -> Answer:
        """Talk to the extender as a scheduler (or as a stranger) would."""
        return await self.post_to(self.cluster.extender_url() + verb, body)

    async def post_to(self, url: str, body: bytes | str) -> Answer:
        """The same with another extender, or another path."""
        return await self._http.request("POST", url, content=body)

    async def get(self, url: str) -> Answer:
        """Ask the extender for anything."""
        return await self._http.request("GET", url)

    async def sizes(self) -> Sizes:
        """Units of each card, from what the cards themselves say."""
        nodes = [node["metadata"]["name"] for node in await self.cluster.api.list(NODES)]
        return {
            node: {
                card["index"]: card["memory"]["total_mib"] // self._mib_per_unit for card in self.cluster.cards(node)
            }
            for node in nodes
        }

    def uuids(self, node: str) -> dict[int, str]:
        """UUID of each card of a node."""
        return {card["index"]: card["uuid"] for card in self.cluster.cards(node)}

    async def check_books(self) -> None:
        """No card is over-booked in the API, in the extender's book, or by the containers' variables; the books agree."""
        sizes = await self.sizes()
        pods = await self.cluster.api.list(PODS)
        assert check_api(pods, sizes) == []

        async def differences() -> list[str]:
            return check_inspect(await self.inspect(), await self.cluster.api.list(PODS), sizes)

        await eventually(differences, lambda findings: not findings, "the extender's book is the API's")
        running = [pod for pod in await self.pods() if pod["status"].get("phase") == "Running"]
        told = {(pod["spec"]["nodeName"], pod["metadata"]["name"]): await self._still_told(pod) for pod in running}
        assert check_containers(told, {node: self.uuids(node) for node in sizes}, sizes) == []

    async def _still_told(self, pod: Object) -> list[dict[str, str]]:
        """The variables of containers that run; an init container has ended, and its units are another's."""
        told = zip(gpu_containers(pod), await self.variables(pod), strict=True)
        return [given for container, given in told if container.kind != "init"]

    async def check_right_cards(self, *names: str, totals: bool = True) -> list[Object]:
        """Each running pod's containers see the card of its annotation, and get their amounts; the pods."""
        pods = [await self.pod(name) for name in names]
        for pod in pods:
            uuids = self.uuids(pod["spec"]["nodeName"])
            findings = check_pod(pod, await self.variables(pod), uuids, totals=totals)
            assert findings == [], findings
        return pods

    async def check_all(self, *names: str, totals: bool = True) -> list[Object]:
        """Both: the right cards of these pods, and all books; the pods."""
        pods = await self.check_right_cards(*names, totals=totals)
        await self.check_books()
        return pods


async def ensure_open(api: ApiClient, namespace: str) -> None:
    """Create the namespace unless it is there, and wait until it takes pods: a controller makes their ServiceAccount."""

    async def accounts() -> list[str]:
        return [str(account["metadata"]["name"]) for account in await api.list(SERVICE_ACCOUNTS, namespace)]

    await api.ensure_namespace(namespace)
    await eventually(accounts, lambda names: "default" in names, f"{namespace} has its ServiceAccount")


@contextlib.asynccontextmanager
async def observing(
    cluster: Cluster, namespace: str, *, mib_per_unit: int = spec.MIB_PER_UNIT
) -> AsyncIterator[Observer]:
    """An observer of a namespace that is made for it, and is empty afterwards."""
    await ensure_open(cluster.api, namespace)
    observer = Observer(cluster, namespace, mib_per_unit=mib_per_unit)
    try:
        yield observer
    finally:
        await observer.close()


OwnCluster = Callable[..., contextlib.AbstractAsyncContextManager[Cluster]]
"""A cluster of these nodes beside the session's, of its kind and with its target (or another one), which is up inside."""


@contextlib.asynccontextmanager
async def own_cluster(
    provider: str, nodes: Sequence[NodeSpec], target: Target, choices: Choices
) -> AsyncIterator[Cluster]:
    """A cluster beside the session's, which is up inside."""
    cluster = make_cluster(provider, nodes, target, choices)
    await cluster.start()
    try:
        yield cluster
    finally:
        await cluster.stop()
