"""A case's view of a cluster: pods, books, and the containers' variables, through the interfaces that users have."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from clusters.api.api_client import ApiClient, ApiError, Object
from clusters.api.connection import Answer, Connection, TransportError
from clusters.api.resources import EVENTS, NAMESPACES, NODES, PODS, SERVICE_ACCOUNTS
from clusters.api.waiting import DEFAULT_SECONDS, NotReachedError, eventually, glimpse, meanwhile, until
from clusters.provider import Cluster, ClusterError, NodeSpec
from clusters.providers import Choices, make_cluster
from clusters.targets import Target
from e2e import spec
from e2e.builders import binding
from e2e.checkers.extender_answers import book_adds_up, book_beyond_cards, book_differs, kept_binds
from e2e.checkers.history import Asked, Card, Cards, Entry, Finding, Listed, Rule, Told, judge
from e2e.checkers.overcommit import (
    Sizes,
    need_evidence,
    over_booked,
    over_slotted,
    over_told,
    sees_its_card,
    unreadable,
)
from e2e.checkers.pod_requests import gpu_containers
from e2e.checkers.right_card import MARK, right_card

# How long a case waits at its end for an extender that still books its pods.
_PATIENCE_SECONDS: Final = 5


class Observer:
    """One namespace of one cluster; a unit of its books is this number of MiB."""

    def __init__(self, cluster: Cluster, namespace: str, *, mib_per_unit: int = spec.MIB_PER_UNIT) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self._mib_per_unit = mib_per_unit
        self._http = Connection()
        self._binds: list[Asked] = []
        self._begun = asyncio.get_running_loop().time()
        self._nodes: set[str] = set()

    async def close(self) -> None:
        """Delete the namespace's pods, wait until the extender has forgotten them, and close."""
        async with self._http:
            await self.clear()
            await self._wait_until_forgotten()
            await self.cluster.api.delete(NAMESPACES, self.namespace)

    async def clear(self) -> None:
        """Delete the namespace's pods, also those that a controller creates later, and wait until none is left."""

        async def left() -> list[Object]:
            pods = await self.pods()
            await asyncio.gather(*(self.delete(pod["metadata"]["name"], 0) for pod in pods))
            return pods

        await eventually(left, lambda pods: not pods, f"the pods of {self.namespace} are gone")

    async def _wait_until_forgotten(self) -> None:
        """Wait until the extender's book has no pod of the namespace: the next case counts on free cards.

        One that is away or has no book is not waited for. One that never forgets is judged by the cases about that.
        """

        async def is_forgotten() -> bool:
            try:
                book = (await self._ask("GET", self.cluster.extender_url() + spec.INSPECT)).content
            except (TransportError, ClusterError):
                return True
            return f'"namespace":"{self.namespace}"'.encode() not in book.replace(b" ", b"")

        with contextlib.suppress(NotReachedError):
            await eventually(is_forgotten, bool, "the extender has forgotten the pods", seconds=_PATIENCE_SECONDS)

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
        pods = await self.cluster.api.list(PODS, self.namespace)
        self._nodes |= {pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName")}
        return pods

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

    async def lives(self, *names: str) -> dict[str, tuple[list[str], str]]:
        """Which containers of each pod run, and on which card."""
        # A pod runs with its first container: the second may not be there yet.
        pods = await eventually(
            lambda: self.running(*names),
            lambda found: all(one.get("containerID") for pod in found for one in pod["status"]["containerStatuses"]),
            f"all containers of {', '.join(names)} are there",
        )
        return {
            pod["metadata"]["name"]: (
                [one["containerID"] for one in pod["status"]["containerStatuses"]],
                pod["metadata"]["annotations"][spec.POD_INDEX],
            )
            for pod in pods
        }

    async def reaches(self, name: str, *phases: str) -> Object:
        """Wait until a pod is in one of these phases; the pod."""
        what = f"{name} is {' or '.join(phases)}"
        return await eventually(lambda: self.pod(name), lambda pod: pod["status"].get("phase") in phases, what)

    async def are_gone(self, *names: str) -> None:
        """Wait until there are no such pods."""

        def none_is_there(pods: list[Object]) -> bool:
            return not any(pod["metadata"]["name"] in names for pod in pods)

        await eventually(self.pods, none_is_there, f"{', '.join(names)} of {self.namespace} are gone")

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

    async def variables(self, pod: Mapping[str, Any]) -> list[dict[str, str]]:
        """The variables of each GPU container of a pod, from its log; init containers first."""
        # They are sorted: this one comes last.
        last = f"{spec.ENV_VISIBLE}="
        given = []
        for container in gpu_containers(pod):
            log = await self.log_with(last, pod["metadata"]["name"], container.name)
            given.append(dict(line.split("=", 1) for line in log.splitlines() if "=" in line))
        return given

    async def log_with(self, text: str, pod: str, container: str) -> str:
        """Wait until a container has printed a text: it runs before that, and a new kubelet does not know its pods yet."""
        path = PODS.path(self.namespace, pod, "log")

        async def read() -> str:
            try:
                return await self.cluster.api.text(path, {"container": container})
            except ApiError as error:
                if error.code not in (400, 404):
                    raise
                return ""

        return await eventually(read, lambda log: text in log, f"{path} of {container} has {text}")

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

    async def inspect(self, path: str = "", url: str = "") -> Any:
        """The book of the extender at ``url`` or the session's, nodes and pods by name: the order of an answer has no meaning."""
        book = (await self.get((url or self.cluster.extender_url()) + spec.INSPECT + path)).json()
        for node in book.get("nodes") or ():
            for card in node.get("devs") or ():
                card["pods"] = sorted(card.get("pods") or (), key=str)
        return {**book, "nodes": sorted(book.get("nodes") or (), key=str)}

    async def booked(self) -> Any:
        """The nodes of the book on which something is booked: an extender may know others only once it is asked about them."""
        return [node for node in (await self.inspect())["nodes"] if node["usedGPU"]]

    async def post(self, verb: str, body: bytes | str) -> Answer:
        """Talk to the extender as a scheduler (or as a stranger) would."""
        return await self.post_to(self.cluster.extender_url() + verb, body)

    async def post_to(self, url: str, body: bytes | str) -> Answer:
        """The same with another extender, or another path."""
        return await self._ask("POST", url, body)

    async def get(self, url: str) -> Answer:
        """Ask the extender for anything."""
        return await self._ask("GET", url)

    async def _ask(self, method: str, url: str, body: bytes | str | None = None) -> Answer:
        headers = None if body is None else {"content-type": "application/json"}
        answer = await self._http.request(method, url, content=body, headers=headers)
        if url.endswith(spec.BIND):
            said = _json(answer.content)
            self._binds.append(Asked(self._now(), spec.BIND, _json(body or ""), said, answer.status_code))
        return answer

    async def sizes(self) -> Sizes:
        """Units of each card, from what the cards themselves say."""
        nodes = [node["metadata"]["name"] for node in await self.cluster.api.list(NODES)]
        return {node: {index: card.units for index, card in self.cards(node).cards.items()} for node in nodes}

    def uuids(self, node: str) -> dict[int, str]:
        """UUID of each card of a node."""
        return {index: card.uuid for index, card in self.cards(node).cards.items()}

    def cards(self, node: str) -> Cards:
        """The cards of a node, as they themselves say."""
        return Cards(self._now(), node, cards_of(self.cluster, node, self._mib_per_unit))

    async def listed(self) -> Listed:
        """The pods and nodes of the cluster."""
        pods, nodes = await asyncio.gather(self.cluster.api.list(PODS), self.cluster.api.list(NODES))
        self._nodes |= {
            pod["spec"]["nodeName"]
            for pod in pods
            if pod["metadata"]["namespace"] == self.namespace and pod["spec"].get("nodeName")
        }
        return Listed(self._now(), pods, nodes)

    async def told(self, pods: Iterable[Mapping[str, Any]]) -> list[Told]:
        """The variables of the containers of these pods."""
        return [Told(self._now(), pod["metadata"]["uid"], await self.variables(pod)) for pod in pods]

    async def check_books(self) -> None:
        """No card of the case's nodes is over-booked in the API, in the extender's book, or by variables; the books agree."""
        listed = await self.listed()
        cards = self._known_cards()
        told = await self.told(pod for pod in listed.pods if self._runs_here(pod))
        history: list[Entry] = [*self._binds, listed, *cards, *told]
        assert self._judge(history, unreadable, over_booked, over_slotted, over_told, sees_its_card, kept_binds) == []
        need_evidence(history, self.namespace)

        async def book() -> list[Finding]:
            asked = Asked(self._now(), spec.INSPECT, None, await self.inspect())
            return self._judge([*cards, await self.listed(), asked], book_adds_up, book_beyond_cards, book_differs)

        await eventually(book, lambda found: not found, "the extender's book is the API's")

    def _now(self) -> float:
        return asyncio.get_running_loop().time() - self._begun

    def _judge(self, history: Iterable[Entry], *rules: Rule) -> list[Finding]:
        return judge(history, *rules, namespace=self.namespace, nodes=self._nodes)

    def _known_cards(self) -> list[Cards]:
        """The cards of the nodes that the case's pods have used, without those of nodes that have no machine."""
        known = []
        for node in sorted(self._nodes):
            with contextlib.suppress(ClusterError):
                known.append(self.cards(node))
        return known

    def _runs_here(self, pod: Mapping[str, Any]) -> bool:
        return bool(pod["metadata"]["namespace"] == self.namespace and pod["status"].get("phase") == "Running")

    async def check_right_cards(self, *names: str) -> list[Object]:
        """Each running pod's containers see the card of its annotation, and get their amounts; the pods.

        The mark of assigned pods is judged by the cases about it.
        """
        pods = [await self.pod(name) for name in names]
        cards = [self.cards(node) for node in {pod["spec"]["nodeName"] for pod in pods}]
        found = judge([Listed(self._now(), pods), *cards, *await self.told(pods)], right_card)
        assert [one for one in found if one.rule != MARK] == []
        return pods

    async def check_all(self, *names: str) -> list[Object]:
        """Both: the right cards of these pods, and all books; the pods."""
        pods = await self.check_right_cards(*names)
        await self.check_books()
        return pods


def cards_of(cluster: Cluster, node: str, mib_per_unit: int = spec.MIB_PER_UNIT) -> dict[int, Card]:
    """The cards of a node by their index, as they themselves say. Raises ClusterError for a node that has no machine."""
    return {
        card["index"]: Card(
            card["memory"]["total_mib"] // mib_per_unit, card["uuid"], sum(one["mib"] for one in card["processes"])
        )
        for card in cluster.cards(node)
    }


def _json(text: bytes | str) -> Any:
    """The value of a JSON text; None for any other text."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return None


async def ensure_open(api: ApiClient, namespace: str) -> None:
    """Create the namespace unless it is there, and wait until it takes pods: a controller makes their ServiceAccount.

    One that is being deleted is created again when it has gone.
    """

    async def is_open() -> bool:
        await api.ensure_namespace(namespace)
        phases = {one["metadata"]["name"]: one["status"].get("phase") for one in await api.list(NAMESPACES)}
        accounts = [account["metadata"]["name"] for account in await api.list(SERVICE_ACCOUNTS, namespace)]
        return phases.get(namespace) == "Active" and "default" in accounts

    await eventually(is_open, bool, f"{namespace} is active and has its ServiceAccount")


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
