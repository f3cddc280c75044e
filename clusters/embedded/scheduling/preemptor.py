"""Makes room for a pod that no node takes: chooses victims, lets extenders have their say, evicts.

The choice belongs to the cycle; the eviction goes on beside the cycles that follow, and the pod is not tried again
before it has been asked for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from clusters.api.api_client import ApiClient, ApiError, Object, is_being_deleted, uid_of
from clusters.api.connection import TransportError
from clusters.api.resources import PODS
from clusters.embedded.scheduling.cluster_view import ClusterView, Nominations
from clusters.embedded.scheduling.extender_client import ExtenderClient, ExtenderError
from clusters.embedded.scheduling.fit import Demand, Diagnosis
from clusters.embedded.scheduling.pod_fields import full_name, nominated_node_of, priority_of, scheduler_of
from clusters.embedded.scheduling.preemption import BY_SCHEDULER, Victims, best_of, dry_run, why_not_eligible
from clusters.embedded.scheduling.reports import Reporter, changed_condition

logger = logging.getLogger(__name__)

# The text of the plugin for dynamic resources before that of preemption, for every pod without such claims.
BEFORE = "no new claims to deallocate, preemption: "


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of an attempt. ``node`` None leaves the pod's nomination as it is, the empty string takes it away."""

    message: str
    node: str | None = None
    victims: tuple[Object, ...] = ()


class Preemptor:
    """Preempts for one pod after the other; evictions of several may run in parallel."""

    def __init__(
        self,
        api: ApiClient,
        extenders: Sequence[ExtenderClient],
        view: ClusterView,
        nominations: Nominations,
        reporter: Reporter,
        latest: Callable[[str], Object | None],
    ) -> None:
        """``latest`` answers the last state seen of a pod, by uid."""
        self._api = api
        self._extenders = extenders
        self._view = view
        self._nominations = nominations
        self._reporter = reporter
        self._latest = latest
        self.budgets: dict[str, Object] = {}
        # Pods with victims that are being evicted, and the last victim once it is its turn.
        self._evicting: dict[str, str | None] = {}

    def is_preempting(self, uid: str) -> bool:
        """Whether victims of the pod are being evicted; over as soon as the last one is seen to go."""
        if uid not in self._evicting:
            return False
        last = self._evicting[uid]
        if last is None:
            return True
        victim = self._latest(last)
        return victim is not None and not is_being_deleted(victim)

    async def choose(self, demand: Demand, diagnosis: Diagnosis) -> Outcome:
        """Find a node and victims for a pod that was refused."""
        pod = demand.pod
        nominated = nominated_node_of(pod)
        reason = why_not_eligible(pod, self._view.node(nominated), diagnosis.rejections.get(nominated))
        if reason:
            return Outcome(BEFORE + reason)
        nodes = self._view.nodes
        # Only nodes that refused for something that eviction can cure.
        rejections = diagnosis.rejections
        curable = [info for info in nodes if info.name in rejections and rejections[info.name].resolvable]
        found = dry_run(demand, curable, list(self.budgets.values()), self._nominations.on)
        if not found.candidates and found.errors:
            listed = ", ".join(found.errors)
            return Outcome(f"preemption: {listed if len(found.errors) == 1 else f'[{listed}]'}")
        if not found.candidates:
            return Outcome(BEFORE + found.message(len(nodes)), "")
        try:
            candidates = await self._ask_extenders(pod, found.candidates)
        except ExtenderError as error:
            return Outcome(f"preemption: {error}")
        if not candidates:
            return Outcome(BEFORE + "no candidate node for preemption")
        node = best_of(candidates)
        return Outcome("", node, candidates[node].pods)

    def begin(self, pod: Object, victims: Sequence[Object]) -> list[Object]:
        """The victims still to evict; from now on the pod is held back until ``evict`` has come to the last."""
        staying = [victim for victim in victims if not is_being_deleted(victim)]
        if staying:
            self._evicting[uid_of(pod)] = None
        return staying

    async def evict(self, pod: Object, node: str, victims: Sequence[Object]) -> bool:
        """Evict; whether all went well."""
        try:
            await self._clear_lower_nominations(pod, node)
            await asyncio.gather(*(self._evict(pod, node, victim) for victim in victims[:-1]))
            self._evicting[uid_of(pod)] = uid_of(victims[-1])
            await self._evict(pod, node, victims[-1])
        except (ApiError, TransportError) as error:
            logger.warning("eviction failed pod=%s node=%s: %s", full_name(pod), node, error)
            return False
        finally:
            del self._evicting[uid_of(pod)]
        return True

    async def _ask_extenders(self, pod: Object, candidates: Mapping[str, Victims]) -> Mapping[str, Victims]:
        """Every interested extender with a preemptVerb in turn; the answer of each is the question to the next."""
        for extender in self._extenders:
            configuration = extender.configuration
            if not configuration.preempt_verb or not configuration.is_interested(pod):
                continue
            try:
                answer = await extender.preempt(pod, candidates, self._view.node)
            except ExtenderError as error:
                if not configuration.ignorable:
                    raise
                logger.warning("extender ignored url=%s: %s", configuration.url_prefix, error)
                continue
            without = next((name for name, victims in answer.items() if not victims.pods), None)
            if without is not None and not configuration.ignorable:
                raise ExtenderError(f'expected at least one victim pod on node "{without}"')
            candidates = {name: victims for name, victims in answer.items() if victims.pods}
            if not candidates:
                break
        return candidates

    async def _clear_lower_nominations(self, pod: Object, node: str) -> None:
        """Pods of lower priority that were promised the node look for another one."""
        for each in self._nominations.on(node):
            other = self._latest(each.uid) or each.pod
            if priority_of(other) < priority_of(pod) and nominated_node_of(other):
                await self._reporter.patch_status(other, {"nominatedNodeName": None})

    async def _evict(self, pod: Object, node: str, victim: Object) -> None:
        """Say why in the victim's status, then delete it; one that is gone is gone."""
        condition = changed_condition(
            victim,
            {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": BY_SCHEDULER,
                "message": f"{scheduler_of(pod)}: preempting to accommodate a higher priority pod",
            },
            self._reporter.now(),
        )
        try:
            if condition is not None:
                await self._reporter.patch_status(victim, {"conditions": [condition]})
            await self._api.delete(PODS, victim["metadata"]["name"], victim["metadata"].get("namespace", "default"))
        except ApiError as error:
            if error.code != 404:
                raise
            return
        self._reporter.preempted(victim, pod, node)
