"""From the API server's events to the book: nodes, pods, the ConfigMaps that declare cards unhealthy, and disruption budgets."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from gpushare import wire
from gpushare.bounds import PODS_OF_A_LIST
from gpushare.extender.core.accepted_state import IGNORED
from gpushare.extender.core.book import Book
from gpushare.kube.client import ApiClient
from gpushare.kube.event_recorder import EventRecorder
from gpushare.kube.reflector import Contact, Reflector
from gpushare.manifests import ConfigMap, DisruptionBudget, ObjectMeta, Pod, ReportedNode
from gpushare.model.node import parse_unhealthy

_LOG = logging.getLogger(__name__)
_T = TypeVar("_T")

_CONFIG_MAPS_PATH: Final = f"/api/v1/namespaces/{wire.UNHEALTHY_CONFIGMAP_NAMESPACE}/configmaps"
_BUDGETS_PATH: Final = "/apis/policy/v1/poddisruptionbudgets"
# Problems of one pod that are reported; its author may write another annotation many times a second.
_MOST_PROBLEMS: Final = 5
# Pods that wait for their event; beyond that they are only logged. An API server that stays away must not fill our memory, and
# if thousands of pods are odd, a few hundred events show enough.
_LONGEST_QUEUE: Final = 500
# How long an API server that could not take an event is left alone, in seconds.
_PAUSE_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class _Changes(Generic[_T]):
    """The handler of each object of a collection, for ``reflector.Handler``."""

    set: Callable[[_T], None]
    remove: Callable[[ObjectMeta], None]
    # By default nothing needs to be forgotten: an object replaces the former one of its name.
    restart_history: Callable[[], None] = lambda: None


class Controller:
    """Feeds the book. Not ready before nodes and pods were read once, whole.

    ConfigMaps and budgets are asked for but not waited for: a role without that right must not stop a cluster from scheduling.
    ``events`` gets reports of pods that cannot be booked.
    """

    def __init__(
        self,
        client: ApiClient,
        book: Book,
        events: EventRecorder,
        on_ready: Callable[[], None] = lambda: None,
    ) -> None:
        self._book = book
        self._on_ready = on_ready
        self._odd = OddPods(events)
        # Entries of ConfigMaps that name no card, by node: logged once, not at each list.
        self._odd_entries: dict[str, tuple[str, ...]] = {}
        nodes = _Changes(self._set_node, lambda gone: book.remove_node(gone.name))
        self._nodes: Reflector[ReportedNode] = Reflector(client, "/api/v1/nodes", ReportedNode, nodes)
        pods = _Changes(self._set_pod, self._remove_pod, book.restart_history)
        self._pods: Reflector[Pod] = Reflector(
            client, "/api/v1/pods", Pod, pods, page=PODS_OF_A_LIST.most,
            on_unreadable=lambda pod: book.set_unreadable(pod.metadata, pod.spec.node_name or ""),
            held=lambda: (ObjectMeta(one.name, one.namespace, one.uid) for one in book.identities().values()),
        )  # fmt: skip
        unhealthy = _Changes(self._declare_unhealthy, lambda gone: self._declare_unhealthy(ConfigMap(gone)))
        self._unhealthy: Reflector[ConfigMap] = Reflector(client, _CONFIG_MAPS_PATH, ConfigMap, unhealthy)
        budgets = _Changes(book.set_budget, book.remove_budget)
        self._budgets: Reflector[DisruptionBudget] = Reflector(client, _BUDGETS_PATH, DisruptionBudget, budgets)

    def is_ready(self) -> bool:
        """Is the book complete?"""
        return self._nodes.synced.is_set() and self._pods.synced.is_set()

    async def come_to(self, nodes: int, pods: int, seconds: float) -> bool:
        """Wait until the watches have passed a resourceVersion each, for at most ``seconds`` each; whether they have."""
        return await self._nodes.come_to(nodes, seconds) and await self._pods.come_to(pods, seconds)

    @property
    def contacts(self) -> Mapping[str, Contact]:
        """The state of each watch, by its resource."""
        return {
            "nodes": self._nodes.contact,
            "pods": self._pods.contact,
            "configmaps": self._unhealthy.contact,
            "poddisruptionbudgets": self._budgets.contact,
        }

    async def run(self) -> None:
        """Follow the API server until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._nodes.run())
            group.create_task(self._pods.run())
            group.create_task(self._unhealthy.run())
            group.create_task(self._budgets.run())
            group.create_task(self._odd.run())
            await self._nodes.synced.wait()
            await self._pods.synced.wait()
            # Laid out here, and not while the first question waits.
            self._book.snapshot()
            _LOG.info("ready: nodes and pods are read")
            self._on_ready()

    def _set_node(self, node: ReportedNode) -> None:
        name = node.metadata.name
        before = self._book.refusal_of(name)
        has_other_cards = self._book.set_node(node)
        refusal = self._book.refusal_of(name)
        if refusal and refusal != before:
            _LOG.warning("node gets no pods node=%s reason=%s", name, refusal)
        if has_other_cards:
            for booking, problem in self._book.placed_on(name):
                self._odd.note(ObjectMeta(booking.name, booking.namespace, booking.uid), problem)

    def _set_pod(self, pod: Pod) -> None:
        # While a list is read, states of a pod may be missed.
        self._odd.note(pod.metadata, self._book.set_pod(pod, has_gap=self._pods.is_listing))

    def _remove_pod(self, metadata: ObjectMeta) -> None:
        self._odd.forget(metadata)
        self._book.remove_pod(metadata)

    def _declare_unhealthy(self, config_map: ConfigMap) -> None:
        name = config_map.metadata.name
        node = name.removeprefix(wire.UNHEALTHY_CONFIGMAP_PREFIX)
        if node == name:
            return
        indices, odd = parse_unhealthy((config_map.data or {}).get("gpus", ""))
        if odd and odd != self._odd_entries.get(node):
            _LOG.warning("no card indices configmap=%s entries=%.200s", name, ",".join(odd))
        self._odd_entries.pop(node, None)
        if odd:
            self._odd_entries[node] = odd
        self._book.set_unhealthy(node, indices)


class OddPods:
    """Reports bound pods with annotations that the book cannot use: no scheduler does, as it has no more questions about them.

    Each fault of a pod is reported once, by a line of the log and an event on the pod, and no caller waits for it.
    """

    def __init__(self, events: EventRecorder) -> None:
        self._events = events
        self._reported: dict[str, str] = {}
        self._counts: dict[str, int] = {}
        # The identity of each pod, without its annotations, which may be large.
        self._reports: asyncio.Queue[tuple[ObjectMeta, str]] = asyncio.Queue(_LONGEST_QUEUE)

    def note(self, metadata: ObjectMeta, problem: str | None) -> None:
        """The problem of the pod now; None if there is none."""
        uid = metadata.uid
        if problem is None:
            self._reported.pop(uid, None)
        elif self._reported.get(uid) != problem and self._counts.get(uid, 0) < _MOST_PROBLEMS:
            self._reported[uid] = problem
            self._counts[uid] = self._counts.get(uid, 0) + 1
            _LOG.warning("odd pod=%s/%s uid=%s problem=%s", metadata.namespace, metadata.name, uid, problem)
            self._queue(ObjectMeta(metadata.name, metadata.namespace, uid), problem)

    def forget(self, metadata: ObjectMeta) -> None:
        """The pod is gone."""
        self._reported.pop(metadata.uid, None)
        self._counts.pop(metadata.uid, None)

    async def run(self) -> None:
        """Write the events, until cancelled."""
        while True:
            metadata, problem = await self._reports.get()
            # Mended or gone in the meantime.
            if self._reported.get(metadata.uid) != problem:
                continue
            is_ignored = problem.startswith(IGNORED)
            message = problem if is_ignored else f"its GPU memory is not, or not all, booked: {problem}"
            if not await self._events.record(
                "Pod", metadata, wire.EVENT_IGNORED if is_ignored else wire.EVENT_NOT_BOOKED, message
            ):
                self._queue(metadata, problem)
                await asyncio.sleep(_PAUSE_SECONDS)

    def _queue(self, metadata: ObjectMeta, problem: str) -> None:
        if not self._reports.full():
            self._reports.put_nowait((metadata, problem))
