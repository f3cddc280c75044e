"""The bookings of each card at every instant of a watch of all pods."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping

from clusters.api.api_client import ApiClient, Object
from clusters.api.resources import PODS
from clusters.api.waiting import DEFAULT_SECONDS, meanwhile, until
from e2e.checkers.overcommit import Sizes, booked_in_api, unreadable


class History:
    """Looks at the pods after each change; ``sizes`` are the cards' units."""

    def __init__(self, sizes: Sizes) -> None:
        self.findings: list[str] = []
        """Each card that is over-booked, by the first pod that made it so."""
        self.changes = 0
        self.bound: set[str] = set()
        """The uids of pods that were seen bound."""
        self._sizes = sizes
        self._pods: dict[str, Object] = {}
        self._synced = asyncio.Event()

    @contextlib.asynccontextmanager
    async def following(self, api: ApiClient) -> AsyncIterator[None]:
        """Inside, every change is looked at. Raises what the watch raises."""
        async with meanwhile(self._follow(api)):
            async with asyncio.timeout(DEFAULT_SECONDS):
                await self._synced.wait()
            yield

    async def found(self, seconds: float = DEFAULT_SECONDS) -> list[str]:
        """Wait until there is a finding; all of them."""
        return await until(lambda: self.findings, bool, "a card that is over-booked", seconds=seconds)

    def take(self, kind: str, pod: Object) -> None:
        """One event of the watch."""
        uid = pod["metadata"]["uid"]
        self.changes += 1
        if kind == "DELETED":
            self._pods.pop(uid, None)
            return
        if pod["spec"].get("nodeName"):
            self.bound.add(uid)
        self._pods[uid] = pod
        node = pod["spec"].get("nodeName")
        self.findings += unreadable([pod])
        for (name, card), units in booked_in_api(list(self._pods.values())).items():
            if name == node and node in self._sizes and units > self._sizes[name].get(card, 0):
                metadata = pod["metadata"]
                self.findings.append(
                    f"card {card} of {name} has {self._sizes[name].get(card, 0)} units and {units} are booked "
                    f"at version {metadata['resourceVersion']}, with pod {metadata['namespace']}/{metadata['name']}"
                )

    def booked(self) -> Mapping[tuple[str, int], int]:
        """Units by node and card, now."""
        return booked_in_api(list(self._pods.values()))

    def pods(self, namespace: str) -> list[Object]:
        """Those of a namespace, now."""
        return [pod for pod in self._pods.values() if pod["metadata"]["namespace"] == namespace]

    async def _follow(self, api: ApiClient) -> None:
        async for kind, pod in api.watch(PODS):
            if kind == "SYNCED":
                self._synced.set()
            else:
                self.take(kind, pod)
