"""The lists that kubectl gpushare reads, each once and page by page: only the parts that answers need stay in memory."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final, TextIO, TypeVar
from urllib.parse import quote

from msgspec.structs import replace

from gpushare import wire
from gpushare.cli.kubectl_flags import path_of
from gpushare.foreign import Decoder, UnreadableError
from gpushare.kube.api_errors import ApiError, MissingRightError, NotFoundError
from gpushare.kube.client import ApiClient
from gpushare.kubectl_gpushare.core.cluster_state import ClusterState
from gpushare.kubectl_gpushare.core.memory_use import Use, use_in
from gpushare.kubectl_gpushare.core.pod_owners import KIND_OF, Family, Owner, makes
from gpushare.kubectl_gpushare.core.scheduler_objects import EndpointSlice, Event, ScheduledNode
from gpushare.manifests import ConfigMap, Pod, PodOutline
from gpushare.setup.core.installed_objects import EXTENDER, NAMESPACE

_T = TypeVar("_T")

_OWNER: Final = Decoder(Owner)
_NODES: Final = "/api/v1/nodes"
_PODS: Final = "/api/v1/pods"
_CONFIG_MAPS: Final = f"/api/v1/namespaces/{wire.UNHEALTHY_CONFIGMAP_NAMESPACE}/configmaps"
# The first report of progress, and the time between two, in seconds.
_PATIENCE: Final = 2.0
_PLUGINS_AT_ONCE: Final = 16

NODES_HIDDEN: Final = "nodes (you may not list them): no card is judged"
PODS_HIDDEN: Final = "pods of other namespaces (you may not list them): a card may have less free than is shown"
UNHEALTHY_HIDDEN: Final = (
    f"ConfigMaps of {wire.UNHEALTHY_CONFIGMAP_NAMESPACE}: a card that one declares unhealthy looks healthy"
)
EVENTS_HIDDEN: Final = "events (you may not list them): a reason that only an event has is not shown"


@dataclass(slots=True)
class Progress:
    """Reports how much is read, if that takes long."""

    out: TextIO
    monotonic: Callable[[], float]
    read: int = 0
    _next: float = 0.0

    def counting(self, take: Callable[[_T], object]) -> Callable[[_T], None]:
        """The same receiver of objects, each of which counts as read."""

        def taken(item: _T) -> None:
            take(item)
            self._note()

        return taken

    def _note(self) -> None:
        now = self.monotonic()
        self._next = self._next or now + _PATIENCE
        self.read += 1
        if now >= self._next:
            self._next = now + _PATIENCE
            self.out.write(f"reading the cluster: {self.read} objects so far\n")
            self.out.flush()


async def read_cluster(
    client: ApiClient,
    namespace: str,
    state: ClusterState,
    progress: Progress,
    see: Callable[[Pod], object] = lambda pod: None,
) -> None:
    """Fill the state; what may not be read is named in it, and of pods those of the namespace remain. Raises ApiError.

    ``see`` is called with each pod.
    """
    hidden = await asyncio.gather(
        _unless_hidden(_each(client, _NODES, ScheduledNode, state.set_node, progress), NODES_HIDDEN),
        _read_pods(client, namespace, state, progress, see),
        _unless_hidden(_each(client, _CONFIG_MAPS, ConfigMap, state.set_unhealthy, progress), UNHEALTHY_HIDDEN),
    )
    state.hidden += filter(None, hidden)


async def _read_pods(
    client: ApiClient, namespace: str, state: ClusterState, progress: Progress, see: Callable[[Pod], object]
) -> str:
    def take(pod: Pod) -> None:
        state.set_pod(pod)
        see(pod)

    def read(path: str) -> Awaitable[None]:
        return _each(client, path, Pod, take, progress, on_unreadable=state.set_unreadable)

    hidden = await _unless_hidden(read(_PODS), PODS_HIDDEN)
    if hidden:
        await read(path_of("pod", namespace))
    return hidden


async def family_of(
    client: ApiClient, kind: str, namespace: str, name: str, state: ClusterState, progress: Progress
) -> Family | None:
    """The object of that type, or of any if it is "", with what it makes; None if there is none. Raises ApiError."""
    found = await asyncio.gather(
        *(_owner(client, one, namespace, name, state) for one in ([kind] if kind else KIND_OF))
    )
    top = next(filter(None, found), None)
    # A StatefulSet names its pods, so that one can be asked about before it is there.
    if top is None and not kind and (of_set := re.fullmatch(r"(.+)-\d+", name)):
        top = await _owner(client, "statefulset", namespace, of_set[1], state)
    if top is None:
        return None
    others = list[Owner]()
    if made := KIND_OF[top.kind.lower()][1]:
        reading = _each(client, path_of(made, namespace), Owner, others.append, progress)
        state.hidden += filter(None, [await _unless_hidden(reading, f"{made}s (you may not list them)")])
    kind_made = KIND_OF[made][0] if made else ""
    return Family(top, tuple(replace(one, kind=kind_made) for one in others if makes(top, one)))


async def _owner(client: ApiClient, kind: str, namespace: str, name: str, state: ClusterState) -> Owner | None:
    try:
        body = await client.request("GET", f"{path_of(kind, namespace)}/{quote(name, safe='')}")
    except NotFoundError:
        return None
    except MissingRightError:
        state.hidden.append(f"{kind}s (you may not get them)")
        return None
    try:
        return replace(_OWNER.decode(body), kind=KIND_OF[kind][0])
    except UnreadableError as error:
        raise ApiError(f"{kind} {namespace}/{name} cannot be read: {error}") from error


async def _unless_hidden(reading: Awaitable[None], hidden: str) -> str:
    """Read; the text if the right for it lacks, or the namespace is not there."""
    try:
        await reading
    except (MissingRightError, NotFoundError):
        return hidden
    return ""


def _each(
    client: ApiClient,
    path: str,
    kind: type[_T],
    take: Callable[[_T], object],
    progress: Progress,
    selector: str = "",
    on_unreadable: Callable[[PodOutline], object] | None = None,
) -> Awaitable[None]:
    selected = {"fieldSelector": selector} if selector else None
    return client.read_each(path, kind, progress.counting(take), selected, on_unreadable)


async def events_of(
    client: ApiClient, namespace: str, name: str, state: ClusterState, progress: Progress
) -> list[Event]:
    """The events of a namespace, or of all, about objects of that name; about all objects without one."""
    found: list[Event] = []
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/events" if namespace else "/api/v1/events"
    selector = f"involvedObject.name={name}" if name else ""
    hidden = await _unless_hidden(_each(client, path, Event, found.append, progress, selector), EVENTS_HIDDEN)
    state.hidden += filter(None, [hidden])
    return found


async def backends_of(client: ApiClient) -> int | None:
    """The ready pods behind the extender's Service; None if it has no Service, or that may not be seen. Raises ApiError."""
    found = list[EndpointSlice]()
    path = f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices"
    selector = {"labelSelector": f"kubernetes.io/service-name={EXTENDER}"}
    try:
        await client.read_each(path, EndpointSlice, found.append, selector)
    except (MissingRightError, NotFoundError):
        return None
    ready = sum(one.conditions.ready is not False for each in found for one in each.endpoints or ())
    return ready if found else None


async def uses_of(client: ApiClient, plugins: Mapping[str, str]) -> dict[str, Use]:
    """The use that device plugins publish, by node; ``plugins`` are the paths of their pods, with the port of their metrics.

    A plugin that cannot be asked is left out.
    """
    turns = asyncio.Semaphore(_PLUGINS_AT_ONCE)

    async def ask(path: str) -> Use | None:
        async with turns:
            try:
                return use_in((await client.request("GET", f"{path}/proxy/metrics")).decode(errors="replace"))
            except ApiError:
                return None

    answers = await asyncio.gather(*map(ask, plugins.values()))
    return {node: use for node, use in zip(plugins, answers, strict=True) if use is not None}
