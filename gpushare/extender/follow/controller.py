"""From the API server's events to the book: nodes, pods, the ConfigMaps that declare cards sick, and disruption budgets."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final

from gpushare import wire
from gpushare.bounds import PODS_OF_A_LIST
from gpushare.extender.core.audit_diff import Versions
from gpushare.extender.core.book import Book
from gpushare.extender.follow.odd_pods import OddPods
from gpushare.kube.client import ApiClient
from gpushare.kube.event_recorder import EventRecorder
from gpushare.kube.reflector import Contact, Reflector
from gpushare.manifests import ConfigMap, DisruptionBudget, Node, ObjectMeta, Pod
from gpushare.model.node import parse_unhealthy

_LOG = logging.getLogger(__name__)

_CONFIG_MAPS_PATH: Final = f"/api/v1/namespaces/{wire.UNHEALTHY_CONFIGMAP_NAMESPACE}/configmaps"
_BUDGETS_PATH: Final = "/apis/policy/v1/poddisruptionbudgets"


class _Nodes:
    def __init__(self, book: Book, odd: OddPods) -> None:
        self._book = book
        self._odd = odd

    def set(self, item: Node) -> None:
        name = item.metadata.name
        before = self._book.refusal_of(name)
        has_other_cards = self._book.set_node(item)
        refusal = self._book.refusal_of(name)
        if refusal and refusal != before:
            _LOG.warning("node gets no pods node=%s reason=%s", name, refusal)
        if has_other_cards:
            for booking, problem in self._book.placed_on(name):
                self._odd.note(ObjectMeta(booking.name, booking.namespace, booking.uid), problem)

    def remove(self, metadata: ObjectMeta) -> None:
        self._book.remove_node(metadata.name)

    def begin_anew(self) -> None:
        self._book.events.note_all()


class _Pods:
    """``has_gap``: is a list read, so that states of a pod may be missed?"""

    def __init__(self, book: Book, odd: OddPods, has_gap: Callable[[], bool]) -> None:
        self._book = book
        self._odd = odd
        self._has_gap = has_gap

    def set(self, item: Pod) -> None:
        self._odd.note(item.metadata, self._book.set_pod(item, has_gap=self._has_gap()))

    def remove(self, metadata: ObjectMeta) -> None:
        self._odd.forget(metadata)
        self._book.remove_pod(metadata)

    def begin_anew(self) -> None:
        self._book.begin_anew()


class _SickCards:
    def __init__(self, book: Book) -> None:
        self._book = book
        # Entries that name no card, by ConfigMap: logged once, not at each list.
        self._reported: dict[str, tuple[str, ...]] = {}

    def set(self, item: ConfigMap) -> None:
        self._declare(item.metadata, (item.data or {}).get("gpus", ""))

    def remove(self, metadata: ObjectMeta) -> None:
        self._declare(metadata, "")

    def begin_anew(self) -> None:
        """A ConfigMap replaces the former one of its name, so nothing needs to be forgotten."""

    def _declare(self, metadata: ObjectMeta, text: str) -> None:
        node = metadata.name.removeprefix(wire.UNHEALTHY_CONFIGMAP_PREFIX)
        if node == metadata.name:
            return
        indices, odd = parse_unhealthy(text)
        if odd and odd != self._reported.get(node):
            _LOG.warning("no card indices configmap=%s entries=%.200s", metadata.name, ",".join(odd))
        self._reported.pop(node, None)
        if odd:
            self._reported[node] = odd
        self._book.set_unhealthy(node, indices)


class _Budgets:
    def __init__(self, book: Book) -> None:
        self._book = book

    def set(self, item: DisruptionBudget) -> None:
        self._book.set_budget(item)

    def remove(self, metadata: ObjectMeta) -> None:
        self._book.remove_budget(metadata)

    def begin_anew(self) -> None:
        """A budget replaces the former one of its name, so nothing needs to be forgotten."""


class Controller:
    """Feeds the book. Not ready before nodes and pods were read once, whole.

    ConfigMaps and budgets are asked for but not waited for: a role without that right must not stop a cluster from scheduling.
    ``events`` gets reports of pods that cannot be booked.
    """

    def __init__(
        self,
        client: ApiClient,
        book: Book,
        on_ready: Callable[[], None] | None = None,
        events: EventRecorder | None = None,
    ) -> None:
        self._odd = OddPods(events)
        self._nodes: Reflector[Node] = Reflector(client, "/api/v1/nodes", Node, _Nodes(book, self._odd))
        pods = _Pods(book, self._odd, lambda: self._pods.is_listing)
        self._pods: Reflector[Pod] = Reflector(client, "/api/v1/pods", Pod, pods, page=PODS_OF_A_LIST.most)
        self._sick: Reflector[ConfigMap] = Reflector(client, _CONFIG_MAPS_PATH, ConfigMap, _SickCards(book))
        self._budgets: Reflector[DisruptionBudget] = Reflector(client, _BUDGETS_PATH, DisruptionBudget, _Budgets(book))
        self._book = book
        self._on_ready = on_ready

    def is_ready(self) -> bool:
        """Is the book complete?"""
        return self._nodes.synced.is_set() and self._pods.synced.is_set()

    async def pods_come_to(self, version: int, seconds: float) -> bool:
        """Wait for at most ``seconds`` until the watch of pods has passed a resourceVersion; whether it has."""
        return await self._pods.come_to(version, seconds)

    @property
    def contacts(self) -> Mapping[str, Contact]:
        """The state of each watch, by its resource."""
        return {
            "nodes": self._nodes.contact,
            "pods": self._pods.contact,
            "configmaps": self._sick.contact,
            "poddisruptionbudgets": self._budgets.contact,
        }

    def versions(self) -> Versions:
        """The versions that the watches have passed."""
        return Versions(self._nodes.version, self._pods.version)

    async def run(self) -> None:
        """Follow the API server until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._nodes.run())
            group.create_task(self._pods.run())
            group.create_task(self._sick.run())
            group.create_task(self._budgets.run())
            group.create_task(self._odd.run())
            await self._nodes.synced.wait()
            await self._pods.synced.wait()
            # Laid out here, and not while the first question waits.
            self._book.snapshot()
            _LOG.info("ready: nodes and pods are read")
            if self._on_ready is not None:
                self._on_ready()
