"""One scheduling cycle: from a pod to the name of a node.

In-tree filters first, over a window of the cluster; the extenders one after the other on what is left; then scores,
unless only one node is left. The caller runs cycles strictly one after the other.

By scores nodes differ only in how empty they are, or how full (NodeResourcesFit). Not imitated: how evenly cpu and memory are
used, soft taints, preferred affinity, spreading, and images that are there already.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Sequence

from clusters.amounts import Amounts
from clusters.api.api_client import Object
from clusters.embedded.scheduling.cluster_view import COUNTED, ClusterView, NodeInfo, Nominations, counted_of
from clusters.embedded.scheduling.configuration import Configuration, Profile, ScoringStrategy, feasible_nodes_to_find
from clusters.embedded.scheduling.extender_client import ExtenderClient, ExtenderError, Filtered
from clusters.embedded.scheduling.fit import (
    EXTENDER,
    Demand,
    Diagnosis,
    FitError,
    NoNodesError,
    Rejection,
    demand_of,
    reject_with_nominated,
)
from clusters.embedded.scheduling.pod_fields import full_name, nominated_node_of

logger = logging.getLogger(__name__)

MAX_NODE_SCORE = 100
MAX_EXTENDER_SCORE = 10


class SchedulingCycle:
    """Places pods. Keeps one value from cycle to cycle: the node at which the search for fitting nodes starts."""

    def __init__(
        self,
        configuration: Configuration,
        extenders: Sequence[ExtenderClient],
        view: ClusterView,
        rng: random.Random,
        nominations: Nominations | None = None,
    ) -> None:
        self._configuration = configuration
        self._extenders = extenders
        self._view = view
        self._rng = rng
        self._nominations = nominations or Nominations()
        self._start = 0

    async def place(self, pod: Object, profile: Profile) -> str:
        """The node for the pod. Raises SchedulingError if none fits, ExtenderError if an extender fails."""
        nodes = self._view.nodes
        if not nodes:
            raise NoNodesError
        demand = self.demand(pod)
        diagnosis = Diagnosis(len(nodes))
        feasible = await self._nominated(demand, diagnosis)
        if not feasible:
            feasible = self._window(demand, nodes, profile, diagnosis)
            feasible = await self._ask_extenders(pod, feasible, diagnosis)
        if not feasible:
            raise FitError(diagnosis)
        if len(feasible) == 1:
            return feasible[0].name
        return pick_best(await self._scores(demand, feasible, profile.scoring), self._rng)

    def demand(self, pod: Object) -> Demand:
        """The part of the pod that the filters look at."""
        return demand_of(pod, self._configuration.ignored_resources)

    async def _nominated(self, demand: Demand, diagnosis: Diagnosis) -> list[NodeInfo]:
        """The nominated node alone, if it is there and fits; a failure here only means that all nodes are looked at."""
        name = nominated_node_of(demand.pod)
        info = self._view.node(name)
        if info is None:
            return []
        rejection = self._reject(demand, info)
        if rejection is not None:
            diagnosis.rejections[info.name] = rejection
            return []
        try:
            return await self._ask_extenders(demand.pod, [info], diagnosis)
        except ExtenderError as error:
            logger.warning("nominated node not evaluated pod=%s node=%s: %s", full_name(demand.pod), name, error)
            return []

    def _reject(self, demand: Demand, info: NodeInfo) -> Rejection | None:
        return reject_with_nominated(demand, info, self._nominations.on(info.name))

    def _window(
        self, demand: Demand, nodes: Sequence[NodeInfo], profile: Profile, diagnosis: Diagnosis
    ) -> list[NodeInfo]:
        """Nodes that pass the in-tree filters, from the rotating start on, until there are enough."""
        wanted = feasible_nodes_to_find(len(nodes), self._configuration.percentage_for(profile))
        feasible: list[NodeInfo] = []
        for offset in range(len(nodes)):
            info = nodes[(self._start + offset) % len(nodes)]
            rejection = self._reject(demand, info)
            if rejection is not None:
                diagnosis.rejections[info.name] = rejection
            elif len(feasible) == wanted:
                # The search ends at the first fitting node beyond ``wanted``; nodes that were refused before it count as looked at.
                break
            else:
                feasible.append(info)
        self._start = (self._start + len(feasible) + len(diagnosis.rejections)) % len(nodes)
        return feasible

    async def _ask_extenders(self, pod: Object, feasible: list[NodeInfo], diagnosis: Diagnosis) -> list[NodeInfo]:
        """The nodes left after every interested extender; each sees those that the one before let through."""
        before = len(feasible)
        for extender in self._extenders:
            if not feasible:
                break
            if not extender.configuration.is_interested(pod):
                continue
            try:
                answer = await extender.filter(pod, feasible)
            except ExtenderError as error:
                if not extender.configuration.ignorable:
                    raise
                logger.warning("extender ignored url=%s: %s", extender.configuration.url_prefix, error)
                continue
            record(answer, diagnosis)
            feasible = answer.nodes
        if len(feasible) != before:
            diagnosis.silent_rejectors.add(EXTENDER)
        return feasible

    async def _scores(
        self, demand: Demand, feasible: Sequence[NodeInfo], scoring: ScoringStrategy
    ) -> list[tuple[str, int]]:
        """In-tree scores plus those of the extenders, which are asked at the same time."""
        judges = [
            extender
            for extender in self._extenders
            if extender.configuration.prioritize_verb and extender.configuration.is_interested(demand.pod)
        ]
        answers = await asyncio.gather(*(scores_of(judge, demand.pod, feasible) for judge in judges))
        extra: dict[str, int] = {}
        for name, score in (entry for answer in answers for entry in answer):
            extra[name] = extra.get(name, 0) + score
        asked = {**demand.requests, **counted_of(demand.pod)}
        # The range of an extender's own scores ends at 10; its part is scaled to that of the others.
        scale = MAX_NODE_SCORE // MAX_EXTENDER_SCORE
        return [(one.name, resource_score(scoring, asked, one) + scale * extra.get(one.name, 0)) for one in feasible]


def record(answer: Filtered, diagnosis: Diagnosis) -> None:
    """Keep an extender's reasons for the nodes that it refuses; a node in both maps counts as unresolvable."""
    for name, reason in answer.failed.items():
        diagnosis.rejections[name] = Rejection(EXTENDER, (reason,), resolvable=True)
    for name, reason in answer.unresolvable.items():
        diagnosis.rejections[name] = Rejection(EXTENDER, (reason,), resolvable=False)


async def scores_of(extender: ExtenderClient, pod: Object, feasible: Sequence[NodeInfo]) -> list[tuple[str, int]]:
    """An extender's scores; one that fails has no say, and the pod is placed without it."""
    try:
        return await extender.prioritize(pod, feasible)
    except ExtenderError as error:
        logger.debug("scores ignored url=%s: %s", extender.configuration.url_prefix, error)
        return []


def resource_score(scoring: ScoringStrategy, asked: Amounts, info: NodeInfo) -> int:
    """0 to 100: the weighted mean over the resources of what would be free, or taken, with the pod on the node.

    An extended resource counts for the pods alone that ask for it (kubernetes, resource_allocation.go).
    """
    total = weights = 0
    for one in scoring.resources:
        capacity = info.allocatable.get(one.name, 0)
        if capacity <= 0 or (one.name not in COUNTED and not asked.get(one.name)):
            continue
        used = (info.counted if one.name in COUNTED else info.requested).get(one.name, 0)
        taken = min(used + asked.get(one.name, 0), capacity)
        part = taken if scoring.type == "MostAllocated" else capacity - taken
        total += one.weight * (part * MAX_NODE_SCORE // capacity)
        weights += one.weight
    return total // weights if weights else 0


def pick_best(scores: Sequence[tuple[str, int]], rng: random.Random) -> str:
    """The name with the highest score; one of the best at random if several are equal."""
    best = max(score for _, score in scores)
    return rng.choice([name for name, score in scores if score == best])
