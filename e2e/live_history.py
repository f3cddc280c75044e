"""The history of a cluster's pods and nodes as it happens, judged after each change."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Literal

from clusters.api.api_client import ApiClient, Object
from clusters.api.resources import NODES, PODS, Resource
from clusters.api.waiting import DEFAULT_SECONDS, meanwhile, until
from e2e.checkers.history import Cards, Change, Finding, Judge
from e2e.checkers.overcommit import booked_in_api, over_booked, unreadable


class LiveHistory:
    """Looks at the pods after each change: is any of these cards over-booked?"""

    def __init__(self, *cards: Cards) -> None:
        self.changes = 0
        self.bound: set[str] = set()
        """The uids of pods that were seen bound."""
        self._judge = Judge(unreadable, over_booked)
        for one in cards:
            self._judge.take(one)

    @property
    def findings(self) -> list[Finding]:
        """Each card that was over-booked, when it was first, and each pod with annotations that cannot be read."""
        return self._judge.findings

    @contextlib.asynccontextmanager
    async def following(self, api: ApiClient) -> AsyncIterator[None]:
        """Inside, every change is looked at. Raises what the watches raise."""
        synced = {"nodes": asyncio.Event(), "pods": asyncio.Event()}

        async def follow(what: Resource, of: Literal["pods", "nodes"]) -> None:
            async for kind, item in api.watch(what):
                if kind == "SYNCED":
                    synced[of].set()
                else:
                    self.take(Change(asyncio.get_running_loop().time() - begun, kind, item, of))

        begun = asyncio.get_running_loop().time()
        async with meanwhile(follow(NODES, "nodes")), meanwhile(follow(PODS, "pods")):
            async with asyncio.timeout(DEFAULT_SECONDS):
                await asyncio.gather(*(one.wait() for one in synced.values()))
            yield

    async def found(self, seconds: float = DEFAULT_SECONDS) -> list[Finding]:
        """Wait until there is a finding; all of them."""
        return await until(lambda: self.findings, bool, "a card that is over-booked", seconds=seconds)

    def take(self, change: Change) -> None:
        """One event of a watch."""
        self._judge.take(change)
        if change.of == "pods":
            self.changes += 1
            if change.item["spec"].get("nodeName"):
                self.bound.add(change.item["metadata"]["uid"])

    def booked(self) -> Mapping[tuple[str, int], int]:
        """Units by node and card, now."""
        return booked_in_api(self._judge.state.pods.values())

    def pods(self, namespace: str) -> list[Object]:
        """Those of a namespace, now."""
        return [dict(pod) for pod in self._judge.state.pods.values() if pod["metadata"]["namespace"] == namespace]
