"""Reports stuck pods once each, and deletes those that may be, if the operator allowed it. The decisions are in ``stuck_pods``."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from gpushare import wire
from gpushare.deviceplugin.core.plugin_metrics import PluginMetrics
from gpushare.deviceplugin.core.stuck_pods import StuckPod, stuck_pods
from gpushare.deviceplugin.core.write_budget import WriteBudget
from gpushare.kube.api_errors import ApiError, ConflictError, MissingRightError, NotFoundError
from gpushare.kube.client import ApiClient
from gpushare.kube.event_recorder import EventRecorder
from gpushare.manifests import Pod
from gpushare.model.node import NodeInfo

_LOG = logging.getLogger(__name__)

# How often the node's pods are looked through, in seconds: a new pod is soon there, and nothing else waits for it.
LOOK_SECONDS: Final = 5.0
DELETIONS_A_MINUTE: Final = 6
_HAS_ROOM: Final = "a card of its node has room for it now"
_BY_SCHEDULER: Final = "create it again without nodeName: the scheduler finds a node with room, or lets it wait"


@dataclass(eq=False)
class StuckPodSweeper:
    """``without`` gives the node as it is now, but for the pod of a uid. ``is_served``: does the kubelet hold our list?
    ``held`` are the pods held for good, by uid, and why."""

    client: ApiClient
    without: Callable[[str], NodeInfo]
    pods: Callable[[], Iterable[Pod]]
    is_served: Callable[[], bool]
    held: Callable[[], Mapping[str, str]]
    metrics: PluginMetrics
    events: EventRecorder
    clock: Callable[[], float]
    delete: bool
    # One for the node: if it always refuses, the replacements fail too.
    budget: WriteBudget = field(default_factory=lambda: WriteBudget(DELETIONS_A_MINUTE), init=False)
    # By uid, for which lack of room: "" once there is room.
    reported: dict[str, str] = field(default_factory=dict, init=False)
    deleted: set[str] = field(default_factory=set, init=False)
    logged: str = field(default="", init=False)

    async def look(self) -> None:
        """Look once. While the kubelet does not hold our list, each pod is refused."""
        if not self.is_served():
            return
        pods = tuple(self.pods())
        alive = {pod.metadata.uid for pod in pods}
        self.reported = {uid: no_room for uid, no_room in self.reported.items() if uid in alive}
        self.deleted &= alive
        for stuck in stuck_pods(pods, functools.cache(self.without), self.held()):
            await self._report(stuck)
            if self.delete and not stuck.keep_because and stuck.metadata.uid not in self.deleted:
                await self._remove(stuck)

    async def _report(self, stuck: StuckPod) -> None:
        pod = stuck.metadata
        if self.reported.get(pod.uid) in ("", stuck.no_room):
            return
        self.reported[pod.uid] = stuck.no_room
        if not stuck.no_room:
            self.metrics.unadmitted_pods["reported"] += 1
        _LOG.warning("stuck pod=%s/%s uid=%s cause=%s", pod.namespace, pod.name, pod.uid, stuck.cause)
        room = f"no card of its node has room for it now ({stuck.no_room})" if stuck.no_room else _HAS_ROOM
        text = f"{room}, and no kubelet tries a pod again; {self._what_next(stuck)}. The reason: {stuck.cause}"
        await self.events.record("Pod", pod, wire.EVENT_UNADMITTED, text)

    def _what_next(self, stuck: StuckPod) -> str:
        if not stuck.owner:
            again = _BY_SCHEDULER if stuck.no_room else "create it again"
            return f"it stays: {stuck.keep_because}; delete it and {again}"
        if stuck.keep_because:
            return f"it stays: {stuck.keep_because}"
        if self.delete:
            return f"it is deleted so that {stuck.owner} replaces it"
        return f"delete it so that {stuck.owner} replaces it (the plugin does so with --delete-unadmitted)"

    async def _remove(self, stuck: StuckPod) -> None:
        pod = stuck.metadata
        if not self.budget.take("", self.clock()):
            _LOG.debug("deletion waits pod=%s/%s a_minute=%d", pod.namespace, pod.name, DELETIONS_A_MINUTE)
            return
        try:
            await self.client.delete_pod(pod)
        except (NotFoundError, ConflictError):
            # Gone already, or another pod has its name.
            self.deleted.add(pod.uid)
        except ApiError as error:
            # The same trouble is worth one line; a later look tries again.
            hint = "; apply delete-unadmitted-rbac.yaml" if isinstance(error, MissingRightError) else ""
            if (text := f"{error}{hint}") != self.logged:
                _LOG.warning("cannot delete stuck pods error=%s", text)
                self.logged = text
        else:
            self.deleted.add(pod.uid)
            self.metrics.unadmitted_pods["deleted"] += 1
            _LOG.warning("deleted pod=%s/%s uid=%s owner=%s", pod.namespace, pod.name, pod.uid, stuck.owner)
