"""Watch an existing cluster, and report each invariant of sharing that it breaks. Nothing is created or changed.

It lists and watches nodes and pods, and the ConfigMaps of kube-system; ``observe-rbac.yaml`` has these rights and no others.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Final

from clusters.api.api_client import ApiClient, ApiError, remember
from clusters.api.connection import TransportError
from clusters.api.resources import CONFIG_MAPS, NODES, PODS, Resource
from e2e.site import SiteError
from e2e.site.findings import Finding, Reported, counts, in_order
from e2e.site.invariants import RULES, judge
from e2e.site.kubeconfig_choice import PATIENCE, version_of
from e2e.site.picture import KUBE_SYSTEM, Object, Picture, without_odd

_FORBIDDEN: Final = 403


@dataclass(slots=True)
class Outcome:
    """The result of a run; ``not_judged`` are promises that it could not look at, each with its reason."""

    server: str
    kubernetes: str = ""
    looks: int = 0
    missed_looks: int = 0
    nodes: int = 0
    pods: int = 0
    findings: list[Finding] = field(default_factory=list)
    not_judged: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Mirror:
    """The objects of one kind, kept up to date by a watch."""

    resource: Resource
    namespace: str | None = None
    items: dict[str, Object] = field(default_factory=dict)
    is_whole: asyncio.Event = field(default_factory=asyncio.Event)

    async def follow(self, api: ApiClient) -> None:
        async for kind, item in api.watch(self.resource, self.namespace):
            if kind == "SYNCED":
                self.is_whole.set()
            else:
                remember(self.items, kind, item)  # type: ignore[arg-type]  # the same objects, read only here


class Observation:
    """One run: ``report`` gets each line for people as soon as it is known."""

    def __init__(self, api: ApiClient, every: float, report: Callable[[str], None]) -> None:
        self._api = api
        self._every = every
        self._report = report
        self._nodes = _Mirror(NODES)
        self._pods = _Mirror(PODS)
        self._config_maps: _Mirror | None = _Mirror(CONFIG_MAPS, KUBE_SYSTEM)
        self._reported = Reported()
        self._outcome = Outcome(
            api.http.url,
            not_judged=["containers on the cards that they were promised: the API server does not show their devices"],
        )

    async def run(self, seconds: float, ended: asyncio.Event) -> Outcome:
        """Look for this long or until ``ended``, twice at least.

        Raises SiteError, also if two looks of the whole time were not answered, or the account lost its rights.
        """
        self._outcome.kubernetes = await version_of(self._api)
        async with self._following() as watches:
            until = asyncio.get_running_loop().time() + seconds
            while not ended.is_set():
                await self._look()
                _raise_what_ended(watches)
                is_late = asyncio.get_running_loop().time() >= until
                if is_late and self._outcome.looks + self._outcome.missed_looks > 1:
                    break
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(ended.wait(), self._every)
        if self._outcome.looks < 2 and not ended.is_set():
            raise SiteError(f"the API server at {self._outcome.server} stopped answering, so nothing was judged")
        self._outcome.findings = in_order(self._reported.confirmed.values())
        return self._outcome

    @contextlib.asynccontextmanager
    async def _following(self) -> AsyncIterator[Sequence[asyncio.Task[None]]]:
        """All watches, from the moment at which each has shown everything that is there."""
        await self._may_read(NODES)
        await self._may_read(PODS)
        if self._config_maps is not None:
            try:
                await self._may_read(CONFIG_MAPS, KUBE_SYSTEM)
            except SiteError as error:
                self._config_maps = None
                self._outcome.not_judged.append(f"cards that ConfigMaps ban: {error}")
        mirrors = [mirror for mirror in (self._nodes, self._pods, self._config_maps) if mirror is not None]
        tasks = [asyncio.create_task(mirror.follow(self._api)) for mirror in mirrors]
        try:
            try:
                async with asyncio.timeout(PATIENCE):
                    await asyncio.gather(*(mirror.is_whole.wait() for mirror in mirrors))
            except TimeoutError as error:
                _raise_what_ended(tasks)
                raise SiteError(f"the API server did not list nodes and pods within {PATIENCE:.0f} s") from error
            yield tasks
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _may_read(self, resource: Resource, namespace: str | None = None) -> None:
        """Raise SiteError if the account may not list these, before a watch retries for ever."""
        try:
            await self._api.request("GET", resource.path(namespace), params={"limit": "1"})
        except ApiError as error:
            todo = " (e2e/site/observe-rbac.yaml has the rights)" if error.code == _FORBIDDEN else ""
            raise SiteError(f"{resource.plural} cannot be listed: {error.message}{todo}") from error
        except TransportError as error:
            raise SiteError(f"{resource.plural} cannot be listed: {error}") from error

    async def _look(self) -> None:
        """Judge the present state, if the API server answers: an old state would look stuck."""
        try:
            async with asyncio.timeout(self._every):
                await self._api.request("GET", "/version")
        except (ApiError, TransportError, TimeoutError) as error:
            self._outcome.missed_looks += 1
            self._report(f"{_time()} no look: the API server does not answer: {str(error) or 'timeout'}")
            return
        maps = None if self._config_maps is None else list(self._config_maps.items.values())
        picture = Picture(datetime.now(UTC), list(self._nodes.items.values()), list(self._pods.items.values()), maps)
        if not self._outcome.looks:
            _, whole = without_odd(lambda one: (one.sharing_nodes, one.sharing_pods), picture)
            self._outcome.nodes, self._outcome.pods = len(whole.sharing_nodes), len(whole.sharing_pods)
            self._report(self._head())
        self._outcome.looks += 1
        new, gone = self._reported.look(judge(picture))
        for finding in new:
            self._report(f"{_time()} {finding.severity.upper()} {finding.rule}: {finding.subject}: {finding.text}")
            self._report(f"{' ' * 9}{finding.todo}")
        for finding in gone:
            self._report(f"{_time()} over: {finding.rule}: {finding.subject}")

    def _head(self) -> str:
        seen = self._outcome
        return (
            f"observing {seen.server} (Kubernetes {seen.kubernetes}): {seen.nodes} nodes share cards, {seen.pods} pods ask for "
            f"card memory; a look each {self._every:g} s; nothing is created or changed"
        )


def _raise_what_ended(watches: Sequence[asyncio.Task[None]]) -> None:
    """Raise SiteError if a watch is over: what it showed last would be judged for ever."""
    for watch in watches:
        if watch.done():
            raise SiteError(f"a watch ended, so the cluster is not seen any more: {watch.exception()}")


def summary(outcome: Outcome) -> str:
    """The last lines of a run, for people."""
    missed = f" ({outcome.missed_looks} more were not answered)" if outcome.missed_looks else ""
    lines = [f"not judged: {reason}" for reason in outcome.not_judged]
    if not outcome.nodes:
        lines.append("no node shares cards here, so most promises had nothing to judge")
    return "\n".join([*lines, f"{outcome.looks} looks{missed}: {counts(outcome.findings)}"])


def as_json(outcome: Outcome) -> str:
    """The whole result, for a machine."""
    return json.dumps({**asdict(outcome), "promises": {name: rule.__doc__ for name, rule in RULES.items()}}, indent=2)


def _time() -> str:
    return datetime.now().astimezone().strftime("%H:%M:%S")
