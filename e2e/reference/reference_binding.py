"""The reference extender's bind: the card is chosen and booked in memory, then one request writes node and card together."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Final

from clusters.api.api_client import STRATEGIC_MERGE_PATCH, ApiError
from clusters.api.resources import PODS
from e2e.reference.reference_api import Api
from e2e.reference.reference_book import Book, Card
from e2e.reference.reference_pods import (
    ASSIGNED,
    ASSUMED_AT,
    CARD_UNITS,
    INDEX,
    UNITS,
    Object,
    node_of,
    shares,
    units,
)

_LOG: Final = logging.getLogger("reference implementation.bind")


class Binder:
    """Binds pods by the book."""

    def __init__(self, api: Api, book: Book, nanoseconds: Callable[[], int]) -> None:
        self.locks: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._api, self._book, self._now, self._faults = api, book, nanoseconds, book.faults

    async def bind(self, order: Mapping[str, str]) -> str:
        """The reason why the pod was not bound, or ""."""
        if "d24-node-locked" in self._faults:
            async with self.locks[order["Node"]]:
                return await self._bind(order)
        return await self._bind(order)

    def assume(self, pod: Object, node: str) -> None:
        """Book a pod that was only asked about."""
        amount = units(pod, self._faults)
        card = self._book.choose(self._book.all_cards([node]).get(node, ()), amount)
        if card is not None and amount:
            self._book.assume(pod, node, card.index, amount)

    async def _bind(self, order: Mapping[str, str]) -> str:
        node = order["Node"]
        pod = await self._pod(order)
        if isinstance(pod, str):
            return pod
        if node not in self._book.nodes:
            return f"{node} is not a node of this cluster"
        if node_of(pod):
            return self._is_there(pod, node)
        amount = units(pod, self._faults)
        cards = self._book.all_cards([node], without=pod["metadata"]["uid"])[node]
        card = self._book.choose(cards, amount)
        if card is None and amount:
            return f"no card of {node} takes {amount} more"
        return await self._write(pod, node, card if amount else None, amount)

    async def _pod(self, order: Mapping[str, str]) -> Object | str:
        """The pod that is meant, or why there is none."""
        namespace, name, uid = order["PodNamespace"], order["PodName"], order["PodUID"]
        if not name:
            raise ValueError("no PodName")
        pod = self._book.find(namespace, name)
        if pod is None or (uid and pod["metadata"]["uid"] != uid):
            try:
                pod = await self._api.get(PODS, name, namespace)
            except ApiError as error:
                return str(error)
        if uid and pod["metadata"]["uid"] != uid and "uid-ignored" not in self._faults:
            return f"{name} is {pod['metadata']['uid']} and not {uid}"
        return pod

    def _is_there(self, pod: Object, node: str) -> str:
        is_done = node_of(pod) == node and shares(pod) and "bind-not-idempotent" not in self._faults
        return "" if is_done else f"it has been bound to {node_of(pod)} before"

    async def _write(self, pod: Object, node: str, card: Card | None, amount: int) -> str:
        uid = pod["metadata"]["uid"]
        annotations = self._annotations(card, amount)
        if card is not None and "assumed-after-write" not in self._faults:
            self._book.assume(pod, node, card.index, amount)
        try:
            await self._send(pod, node, annotations)
        except ApiError as error:
            return await self._refused(pod, node, str(error))
        if card is not None and "assumed-after-write" in self._faults:
            self._book.assume(pod, node, card.index, amount)
        _LOG.info("%s sits on %s, card %s", uid, node, card and card.index)
        return ""

    async def _refused(self, pod: Object, node: str, error: str) -> str:
        """The error, unless another extender has bound it there; the book follows the API server."""
        uid = pod["metadata"]["uid"]
        now = await self._api.find(PODS, pod["metadata"]["name"], pod["metadata"]["namespace"])
        if now is None:
            self._book.drop(uid)
            return error
        if now["metadata"]["uid"] != uid or not node_of(now):
            self._book.forget(uid)
            return error
        self._book.put(now)
        return self._is_there(now, node) and error

    def _annotations(self, card: Card | None, amount: int) -> dict[str, str]:
        if card is None:
            return {}
        return {
            INDEX: str(card.index),
            UNITS: str(amount),
            CARD_UNITS: str(card.size),
            ASSIGNED: "false",
            ASSUMED_AT: str(self._now()),
        }

    async def _send(self, pod: Object, node: str, annotations: Mapping[str, str]) -> None:
        metadata = {"name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
        if "d20-annotations-before-bind" in self._faults:
            await self._api.annotate(pod, annotations, STRATEGIC_MERGE_PATCH)
        one_write = not self._faults & {"d20-annotations-before-bind", "annotations-second"}
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {**metadata, "annotations": dict(annotations)} if one_write else metadata,
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        if "uid-ignored" in self._faults:
            binding["metadata"] = {key: value for key, value in metadata.items() if key != "uid"} | {
                "annotations": dict(annotations)
            }
        path = PODS.path(pod["metadata"]["namespace"], pod["metadata"]["name"], "binding")
        await self._api.request("POST", path, body=binding)
        if "annotations-second" in self._faults:
            await self._api.annotate(pod, annotations, STRATEGIC_MERGE_PATCH)
