"""The lists that kubectl gpushare reads, each once and page by page: only the parts that answers need stay in memory."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Final, TextIO, TypeVar
from urllib.parse import quote

from msgspec.structs import replace

from gpushare import wire
from gpushare.cli.kubectl_flags import path_of
from gpushare.foreign import Decoder, UnreadableError
from gpushare.kube.api_errors import ApiError, MissingRightError, NotFoundError
from gpushare.kube.client import ApiClient, pod_path
from gpushare.kubectl_gpushare.core.cluster_state import ClusterState, subject_of
from gpushare.kubectl_gpushare.core.memory_use import Use, use_in
from gpushare.kubectl_gpushare.core.pod_owners import KIND_OF, Family, Owner, makes
from gpushare.kubectl_gpushare.core.scheduler_objects import AskedPod, EndpointSlice, Event, ScheduledNode
from gpushare.manifests import ConfigMap, Pod, PodOutline
from gpushare.setup.core.installed_objects import EXTENDER, NAMESPACE

_T = TypeVar("_T")

_OWNER: Final = Decoder(Owner)
_CONFIG_MAPS: Final = f"/api/v1/namespaces/{wire.UNHEALTHY_CONFIGMAP_NAMESPACE}/configmaps"
_PLUGINS_AT_ONCE: Final = 16

NODES_HIDDEN: Final = "nodes (you may not list them): no card is judged"
PODS_HIDDEN: Final = "pods of other namespaces (you may not list them): a card may have less free than is shown"
UNHEALTHY_HIDDEN: Final = (
    f"ConfigMaps of {wire.UNHEALTHY_CONFIGMAP_NAMESPACE}: a card that one declares unhealthy looks healthy"
)
EVENTS_HIDDEN: Final = "events (you may not list them): a reason that only an event has is not shown"


@dataclass(slots=True)
class Reading:
    """One reading of a cluster, from a namespace; ``now`` is in seconds since 1970. All of it raises ApiError.

    ``given`` is the standard input.
    """

    client: ApiClient
    namespace: str
    given: TextIO
    now: float
    state: ClusterState = field(default_factory=ClusterState)
    """The objects that are read; ``hidden`` names those that may not be."""

    async def lists(self, see: Callable[[Pod], object] = lambda pod: None) -> None:
        """Fill the state; of pods those of the namespace remain, if not all may be read. ``see`` is called with each pod."""
        hidden = await asyncio.gather(
            self._each("/api/v1/nodes", ScheduledNode, self.state.set_node, NODES_HIDDEN),
            self._pods(see),
            self._each(_CONFIG_MAPS, ConfigMap, self.state.set_unhealthy, UNHEALTHY_HIDDEN),
        )
        self.state.hidden += chain.from_iterable(hidden)

    async def _pods(self, see: Callable[[Pod], object]) -> list[str]:
        def take(pod: Pod) -> None:
            self.state.set_pod(pod)
            see(pod)

        read = partial(self._each, kind=Pod, take=take, on_unreadable=self.state.set_unreadable)
        hidden = await read("/api/v1/pods", hidden=PODS_HIDDEN)
        if hidden:
            await read(path_of("pod", self.namespace))
        return hidden

    async def _each(
        self,
        path: str,
        kind: type[_T],
        take: Callable[[_T], object],
        hidden: str = "",
        selector: Mapping[str, str] | None = None,
        on_unreadable: Callable[[PodOutline], object] | None = None,
    ) -> list[str]:
        """Read a list; the text ``hidden``, if there is one, if the right for it lacks or the namespace is not there."""
        try:
            await self.client.read_each(path, kind, take, selector, on_unreadable)
        except (MissingRightError, NotFoundError):
            if not hidden:
                raise
            return [hidden]
        return []

    async def family(self, kind: str, name: str) -> Family | None:
        """The object of that type, or of any if it is "", with what it makes; None if there is none."""
        found = await asyncio.gather(*(self._owner(one, name) for one in ([kind] if kind else KIND_OF)))
        top = next(filter(None, found), None)
        # A StatefulSet names its pods, so that one can be asked about before it is there.
        if top is None and not kind and (of_set := re.fullmatch(r"(.+)-\d+", name)):
            top = await self._owner("statefulset", of_set[1])
        if top is None:
            return None
        others = list[Owner]()
        if made := KIND_OF[top.kind.lower()][1]:
            hidden = f"{made}s (you may not list them)"
            self.state.hidden += await self._each(path_of(made, self.namespace), Owner, others.append, hidden)
        kind_made = KIND_OF[made][0] if made else ""
        return Family(top, tuple(replace(one, kind=kind_made) for one in others if makes(top, one)))

    async def _owner(self, kind: str, name: str) -> Owner | None:
        try:
            body = await self.client.request("GET", f"{path_of(kind, self.namespace)}/{quote(name, safe='')}")
        except NotFoundError:
            return None
        except MissingRightError:
            self.state.hidden.append(f"{kind}s (you may not get them)")
            return None
        try:
            return replace(_OWNER.decode(body), kind=KIND_OF[kind][0])
        except UnreadableError as error:
            raise ApiError(f"{kind} {self.namespace}/{name} cannot be read: {error}") from error

    async def subject(self, name: str) -> AskedPod:
        """The pod that is asked about."""
        body = await self.client.request("GET", pod_path(self.namespace, name))
        try:
            return subject_of(body)
        except UnreadableError as error:
            raise ApiError(f"pod {self.namespace}/{name} cannot be read: {error}") from error

    async def events(self, name: str, namespace: str | None = None) -> list[Event]:
        """The events about objects of that name, or about all without one; ``namespace`` is another, or "" for all."""
        found = list[Event]()
        of = self.namespace if namespace is None else namespace
        path = f"/api/v1/namespaces/{quote(of, safe='')}/events" if of else "/api/v1/events"
        selector = {"fieldSelector": f"involvedObject.name={name}"} if name else None
        self.state.hidden += await self._each(path, Event, found.append, EVENTS_HIDDEN, selector)
        return found

    async def backends(self) -> int | None:
        """The ready pods behind the extender's Service; None if it has no Service, or that may not be seen."""
        found = list[EndpointSlice]()
        path = f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices"
        selector = {"labelSelector": f"kubernetes.io/service-name={EXTENDER}"}
        if await self._each(path, EndpointSlice, found.append, "the Service", selector):
            return None
        ready = sum(one.conditions.ready is not False for each in found for one in each.endpoints or ())
        return ready if found else None

    async def uses(self, plugins: Mapping[str, str]) -> dict[str, Use]:
        """The use that device plugins publish, by node; ``plugins`` are the paths of their pods, with the port of their metrics.

        A plugin that cannot be asked is left out.
        """
        turns = asyncio.Semaphore(_PLUGINS_AT_ONCE)

        async def ask(path: str) -> Use | None:
            async with turns:
                try:
                    text = await self.client.request("GET", f"{path}/proxy/metrics")
                except ApiError:
                    return None
                return use_in(text.decode(errors="replace"))

        answers = await asyncio.gather(*map(ask, plugins.values()))
        return {node: use for node, use in zip(plugins, answers, strict=True) if use is not None}
