"""Follow the API server, and do what ``desired``, ``jobs`` and ``upkeep`` want done."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Final

from clusters.api.api_client import ApiClient, ApiError
from clusters.api.connection import TransportError
from clusters.api.resources import (
    ALL,
    BY_KIND,
    CONFIG_MAPS,
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    NAMESPACES,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICA_SETS,
    RESOURCE_QUOTAS,
    SERVICE_ACCOUNTS,
    STATEFUL_SETS,
    Resource,
    resource_of,
)
from clusters.embedded.apiserver.update_rules import rfc3339
from clusters.embedded.controllers import desired, jobs, upkeep
from clusters.embedded.controllers.desired import Action, Create, Delete, Empty, Patch
from clusters.embedded.scheduling.informer import Informer

_LOG = logging.getLogger(__name__)
_DEPENDENTS: Final = (REPLICA_SETS, PODS, CONFIG_MAPS)
_WORKLOADS: Final = (DEPLOYMENTS, STATEFUL_SETS, DAEMON_SETS, JOBS)
_FOLLOWED: Final = (
    *_WORKLOADS,
    NODES,
    NAMESPACES,
    SERVICE_ACCOUNTS,
    POD_DISRUPTION_BUDGETS,
    RESOURCE_QUOTAS,
    *_DEPENDENTS,
)
_KINDS: Final = {resource.kind for resource in _FOLLOWED}
# After something was refused or the server was away, in seconds.
_PAUSE_SECONDS: Final = 0.2
# The interval of looks at a Job before its deadline or end of life, in seconds.
_TIMED_SECONDS: Final = 0.5
# Deleted objects that are remembered, so that a late answer to our own write does not bring one back.
_REMEMBERED: Final = 1000
Object = dict[str, Any]


class Controllers:
    """All of them, in one loop: a change of anything makes a new picture, and what it asks for is done.

    ``ca``: the certificate of the cluster's authority (PEM), published in every namespace; empty if there is none.
    ``now``: the time of day in UTC.
    """

    def __init__(self, api: ApiClient, *, now: Callable[[], datetime], ca: str = "") -> None:
        self._api = api
        self._now = now
        self._ca = ca
        self._known: dict[Resource, dict[str, Object]] = {resource: {} for resource in _FOLLOWED}
        self._gone: deque[str] = deque(maxlen=_REMEMBERED)
        self._informers = [Informer(api, resource, self._taking(resource)) for resource in _FOLLOWED]
        self._changed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Start; returns immediately."""
        work = [*(informer.run() for informer in self._informers), self._run()]
        self._tasks = [asyncio.create_task(one) for one in work]

    async def stop(self) -> None:
        """End everything."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _taking(self, resource: Resource) -> Callable[[str, Object], None]:
        def take(kind: str, item: Object) -> None:
            uid = item["metadata"]["uid"]
            if kind == "DELETED":
                self._known[resource].pop(uid, None)
                self._gone.append(uid)
            else:
                self._take(resource, item)
            self._changed.set()

        return take

    def _take(self, resource: Resource, item: Object) -> None:
        """Keep the newest: our own write's answer may be ahead of the watch, or behind it."""
        uid = item["metadata"]["uid"]
        known = self._known[resource].get(uid)
        versions = [int(one["metadata"]["resourceVersion"]) for one in (known, item) if one]
        if uid not in self._gone and versions == sorted(versions):
            self._known[resource][uid] = {"apiVersion": resource.api_version, "kind": resource.kind, **item}

    async def _run(self) -> None:
        for informer in self._informers:
            await informer.synced.wait()
        while True:
            self._changed.clear()
            # Once for all of a picture: hundreds of nodes that are gone would hold up all others for minutes.
            if not all([await self._try(action) for action in self.actions()]):
                await asyncio.sleep(_PAUSE_SECONDS)
                self._changed.set()
            await self._until_changed()

    async def _until_changed(self) -> None:
        """Wait for a change, or for a while if time alone may ask for something."""
        is_timed = any(map(jobs.depends_on_time, self._known[JOBS].values()))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_TIMED_SECONDS if is_timed else None):
                await self._changed.wait()

    async def _try(self, action: Action) -> bool:
        """Was it done?"""
        try:
            await self._do(action)
        except (ApiError, TransportError) as error:
            # The picture was old, or the server is away: the next picture asks again.
            _LOG.info("not done: %s", error)
            return False
        return True

    def actions(self) -> list[Action]:
        """The writes that are due, by the present picture."""
        listed = {resource: list(items.values()) for resource, items in self._known.items()}
        mine = by_controller([*listed[PODS], *listed[REPLICA_SETS]])

        def of(owner: Object, kind: str) -> list[Object]:
            return [item for item in mine.get(owner["metadata"]["uid"], ()) if item["kind"] == kind]

        wanted: list[Action] = []
        sets = [*listed[REPLICA_SETS], *listed[STATEFUL_SETS]]
        for one in _alive(listed[DEPLOYMENTS]):
            wanted += _asked(one, lambda one: desired.deployment(one, of(one, "ReplicaSet")))
        for one in _alive(listed[REPLICA_SETS]):
            wanted += _asked(one, lambda one: desired.replica_set(one, of(one, "Pod")))
        for one in _alive(listed[STATEFUL_SETS]):
            wanted += _asked(one, lambda one: desired.stateful_set(one, of(one, "Pod")))
        for one in _alive(listed[DAEMON_SETS]):
            wanted += _asked(one, lambda one: desired.daemon_set(one, of(one, "Pod"), listed[NODES]))
        for one in _alive(listed[JOBS]):
            wanted += _asked(one, lambda one: jobs.job(one, of(one, "Pod"), self._now()))
        for one in _alive(listed[POD_DISRUPTION_BUDGETS]):
            wanted += _asked(one, lambda one: upkeep.budget(one, listed[PODS], sets))
        wanted += upkeep.furnished(listed[NAMESPACES], listed[SERVICE_ACCOUNTS], listed[CONFIG_MAPS], self._ca)
        wanted += upkeep.tainted(listed[NODES], rfc3339(self._now()))
        wanted += upkeep.counted(listed[RESOURCE_QUOTAS], listed[PODS])
        return wanted + self._garbage(listed)

    def _garbage(self, listed: dict[Resource, list[Object]]) -> list[Action]:
        uids = {uid for items in self._known.values() for uid in items}
        dependents = [(resource, item) for resource in _DEPENDENTS for item in listed[resource]]
        gone = [one for one in listed[NAMESPACES] if one["metadata"].get("deletionTimestamp")]
        return [*upkeep.orphans(dependents, uids, _KINDS), *map(Empty, gone)]

    async def _do(self, action: Action) -> None:
        match action:
            case Create(manifest):
                self._take(resource_of(manifest), await self._api.create(manifest))
            case Delete(resource, item, is_orphan):
                if not is_orphan or await self._owners_are_gone(item):
                    await self._delete(resource, item)
            case Empty(namespace):
                await empty(self._api, namespace)
            case Patch(resource, item, patch, subresource):
                metadata = item["metadata"]
                where = metadata["name"], patch, metadata.get("namespace")
                patched = await self._api.patch(resource, *where, subresource=subresource)
                # An object that goes with this very write is not news: the watch reports it.
                if not patched["metadata"].get("deletionTimestamp"):
                    self._take(resource, patched)

    async def _delete(self, resource: Resource, item: Object) -> None:
        metadata = item["metadata"]
        # Another object may have taken the name in between.
        body = {"preconditions": {"uid": metadata["uid"]}}
        await self._api.request("DELETE", resource.path(metadata["namespace"], metadata["name"]), body=body)
        if metadata["uid"] in self._known[resource]:
            # Until the watch shows it, it must not be deleted again.
            leaving = {**metadata, "deletionTimestamp": metadata.get("deletionTimestamp") or "now"}
            self._known[resource][metadata["uid"]] = {**item, "metadata": leaving}

    async def _owners_are_gone(self, item: Object) -> bool:
        """Ask the server: the watch of an owner's kind may be behind that of its dependent's."""
        for owner in item["metadata"]["ownerReferences"]:
            resource = BY_KIND.get((owner["apiVersion"], owner["kind"]))
            if resource is None:
                return False
            namespace = item["metadata"]["namespace"] if resource.namespaced else None
            try:
                found = await self._api.get(resource, owner["name"], namespace)
            except ApiError as error:
                if error.code != 404:
                    raise
                continue
            if found["metadata"]["uid"] == owner["uid"]:
                return False
        return True


async def empty(api: ApiClient, namespace: Object) -> None:
    """Delete what is in a namespace that is being deleted; once nothing is, let the namespace go.

    It is asked for first: before the watch shows that it is gone, there may be a new one of its name.
    """
    name = namespace["metadata"]["name"]
    if (await api.get(NAMESPACES, name))["metadata"]["uid"] != namespace["metadata"]["uid"]:
        return
    left = 0
    for resource in ALL:
        if resource.namespaced and await api.list(resource, name):
            await api.request("DELETE", resource.path(name))
            left += len(await api.list(resource, name))
    if not left:
        body = {**namespace, "spec": {**namespace.get("spec", {}), "finalizers": []}}
        body["metadata"] = {**namespace["metadata"], "resourceVersion": None}
        await api.request("PUT", NAMESPACES.path(None, name, "finalize"), body=body)


def by_controller(items: Iterable[Object]) -> dict[str, list[Object]]:
    """Objects by the uid of the owner that controls them."""
    found: dict[str, list[Object]] = {}
    for item in items:
        for owner in item["metadata"].get("ownerReferences") or ():
            if owner.get("controller"):
                found.setdefault(owner["uid"], []).append(item)
    return found


def _asked(owner: Object, reconcile: Callable[[Object], list[Action]]) -> list[Action]:
    """The writes that a workload needs; one that makes no sense must not stop the others."""
    try:
        return reconcile(owner)
    except (ValueError, KeyError, TypeError) as error:
        _LOG.error("%s %s passed over: %r", owner["kind"], owner["metadata"]["name"], error)
        return []


def _alive(items: list[Object]) -> list[Object]:
    return [item for item in items if not item["metadata"].get("deletionTimestamp")]
