"""Follow the API server, and do what ``desired`` wants done."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

import httpx2

from clusters.api_client import ApiClient, ApiError
from clusters.embedded.controllers import desired
from clusters.embedded.controllers.desired import Action, Create, Delete
from clusters.resources import DAEMON_SETS, DEPLOYMENTS, NODES, PODS, REPLICA_SETS, STATEFUL_SETS, Resource, resource_of

_LOG = logging.getLogger(__name__)
_FOLLOWED: Final = (DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, DAEMON_SETS, PODS, NODES)
# After something was refused or the server was away, in seconds.
_PAUSE_SECONDS: Final = 0.2
Object = dict[str, Any]


class Controllers:
    """All of them, in one loop: a change of anything makes a new picture, and what it asks for is done."""

    def __init__(self, api: ApiClient) -> None:
        self._api = api
        self._known: dict[Resource, dict[str, Object]] = {resource: {} for resource in _FOLLOWED}
        self._unsynced = set(_FOLLOWED)
        self._changed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Start; returns at once."""
        work = [*(self._follow(resource) for resource in _FOLLOWED), self._run()]
        self._tasks = [asyncio.create_task(one) for one in work]

    async def stop(self) -> None:
        """End everything."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _follow(self, resource: Resource) -> None:
        async for kind, item in self._api.watch(resource):
            if kind == "SYNCED":
                self._unsynced.discard(resource)
            elif kind == "DELETED":
                self._known[resource].pop(item["metadata"]["uid"], None)
            else:
                self._take(resource, item)
            self._changed.set()

    def _take(self, resource: Resource, item: Object) -> None:
        """Keep the newest: our own write's answer may be ahead of the watch."""
        uid = item["metadata"]["uid"]
        known = self._known[resource].get(uid)
        versions = [int(one["metadata"]["resourceVersion"]) for one in (known, item) if one]
        if versions == sorted(versions):
            self._known[resource][uid] = {"apiVersion": resource.api_version, "kind": resource.kind, **item}

    async def _run(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            if self._unsynced:
                continue
            for action in self.actions():
                try:
                    await self._do(action)
                except (ApiError, httpx2.TransportError) as error:
                    # The picture was old, or the server is away: the next picture asks again.
                    _LOG.info("not done: %s", error)
                    await asyncio.sleep(_PAUSE_SECONDS)
                    self._changed.set()

    def actions(self) -> list[Action]:
        """What should be done, as things are known now."""
        listed = {resource: list(items.values()) for resource, items in self._known.items()}
        pods, sets = listed[PODS], listed[REPLICA_SETS]
        wanted: list[Action] = []
        for one in _alive(listed[DEPLOYMENTS]):
            wanted += desired.deployment(one, sets, pods)
        for one in _alive(sets):
            wanted += desired.replica_set(one, pods)
        for one in _alive(listed[STATEFUL_SETS]):
            wanted += desired.stateful_set(one, pods)
        for one in _alive(listed[DAEMON_SETS]):
            wanted += desired.daemon_set(one, pods, listed[NODES])
        uids = {uid for items in self._known.values() for uid in items}
        dependents = [(resource, item) for resource in (REPLICA_SETS, PODS) for item in listed[resource]]
        return wanted + desired.orphans(dependents, uids)

    async def _do(self, action: Action) -> None:
        if isinstance(action, Create):
            resource = resource_of(action.manifest)
            self._take(resource, await self._api.create(action.manifest))
            return
        metadata = action.item["metadata"]
        where = metadata["name"], metadata["namespace"]
        if isinstance(action, Delete):
            await self._api.delete(action.resource, *where)
            # Until the watch shows it, it must not be deleted again.
            leaving = {**metadata, "deletionTimestamp": metadata.get("deletionTimestamp") or "now"}
            self._known[action.resource][metadata["uid"]] = {**action.item, "metadata": leaving}
            return
        patched = await self._api.patch(
            action.resource, where[0], action.patch, where[1], subresource=action.subresource
        )
        self._take(action.resource, patched)


def _alive(items: list[Object]) -> list[Object]:
    return [item for item in items if not item["metadata"].get("deletionTimestamp")]
