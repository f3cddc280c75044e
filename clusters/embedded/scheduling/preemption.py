"""The victims that would have to go for a pod to fit: the dry run of preemption. Pure.

Only the in-tree filters are asked, not the extenders. On each node that refused the pod for what eviction can cure, all
pods of lower priority are taken away in thought; if the pod fits then, as many as possible are put back, the important
ones first, those that a disruption budget protects before the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from clusters.api.api_client import Object, is_being_deleted
from clusters.embedded.apiserver.api_selectors import matches_selector
from clusters.embedded.scheduling.cluster_view import NodeInfo, PodOnNode
from clusters.embedded.scheduling.fit import Demand, Diagnosis, Rejection, reject_with_nominated
from clusters.embedded.scheduling.pod_fields import nominated_node_of, priority_of

NO_VICTIMS = "No preemption victims found for incoming pod"
NOT_HELPFUL = "Preemption is not helpful for scheduling"
NEVER = "not eligible due to preemptionPolicy=Never."
TERMINATING = "not eligible due to a terminating pod on the nominated node."
BY_SCHEDULER = "PreemptionByScheduler"
# Priorities are 32-bit; this lifts them all to zero or more, so that fewer victims always sum up to less.
LIFT = 2**31
# Candidates that a dry run looks for: a tenth of the nodes, and at least this many.
FEWEST_CANDIDATES = 100
# Stands for the start of a pod that has not started: later than any other.
NOT_STARTED = "9999"


@dataclass(frozen=True, slots=True)
class Victims:
    """The pods to evict from one node, most important first, and how many of them a budget protects."""

    pods: tuple[Object, ...]
    violations: int = 0


@dataclass(slots=True)
class DryRun:
    """The result of the dry run: nodes with victims, and the reasons why the others are no candidates."""

    candidates: dict[str, Victims] = field(default_factory=dict)
    rejections: dict[str, Rejection] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)

    def message(self, node_count: int) -> str:
        """Why there is no candidate."""
        return Diagnosis(node_count, self.rejections, absent_reason=NOT_HELPFUL).message


NominatedOn = Callable[[str], Sequence[PodOnNode]]


def why_not_eligible(pod: Object, nominated: NodeInfo | None, rejection: Rejection | None) -> str:
    """Why the pod may not preempt now, or the empty string.

    ``nominated``: the node it was nominated to by an earlier preemption, ``rejection`` that node's reason this time.
    """
    if pod["spec"].get("preemptionPolicy") == "Never":
        return NEVER
    if not nominated_node_of(pod) or rejection is None or not rejection.resolvable or nominated is None:
        return ""
    leaving = (each.pod for each in nominated.pods.values())
    if any(priority_of(each) < priority_of(pod) and leaves_for_another(each) for each in leaving):
        return TERMINATING
    return ""


def leaves_for_another(pod: Object) -> bool:
    """Whether the pod is being deleted because the scheduler evicted it."""
    conditions = (pod.get("status") or {}).get("conditions") or []
    target: Object = next((each for each in conditions if each.get("type") == "DisruptionTarget"), {})
    return is_being_deleted(pod) and target.get("status") == "True" and target.get("reason") == BY_SCHEDULER


def dry_run(demand: Demand, nodes: Sequence[NodeInfo], budgets: Sequence[Object], nominated_on: NominatedOn) -> DryRun:
    """Look at each of ``nodes`` for victims, until there are enough candidates."""
    found = DryRun()
    wanted = max(len(nodes) // 10, FEWEST_CANDIDATES)
    for info in nodes:
        result = victims_on(demand, info.copy(), budgets, nominated_on(info.name))
        if isinstance(result, Rejection):
            found.rejections[info.name] = result
        elif result.pods:
            found.candidates[info.name] = result
        else:
            text = f'expected at least one victim pod on node "{info.name}"'
            found.rejections[info.name] = Rejection("", (text,), resolvable=False)
            found.errors.append(text)
        harmless = any(not victims.violations for victims in found.candidates.values())
        if harmless and len(found.candidates) >= wanted:
            break
    return found


def victims_on(
    demand: Demand, info: NodeInfo, budgets: Sequence[Object], nominated: Sequence[PodOnNode]
) -> Victims | Rejection:
    """The fewest pods to evict from a node (which is changed), or why that would not help. No victims: none needed."""
    lower = [each for each in info.pods.values() if priority_of(each.pod) < priority_of(demand.pod)]
    if not lower:
        return Rejection("", (NO_VICTIMS,), resolvable=False)
    for each in lower:
        info.remove(each.uid)
    rejection = reject_with_nominated(demand, info, nominated)
    if rejection is not None:
        return rejection
    lower.sort(key=importance)
    protected, others = split_by_budget(lower, budgets)
    evicted = [each for each in protected if not can_stay(each, demand, info, nominated)]
    violations = len(evicted)
    evicted += [each for each in others if not can_stay(each, demand, info, nominated)]
    evicted.sort(key=importance)
    return Victims(tuple(each.pod for each in evicted), violations)


def can_stay(pod: PodOnNode, demand: Demand, info: NodeInfo, nominated: Sequence[PodOnNode]) -> bool:
    """Put the pod back if the demand still fits beside it."""
    info.add(pod)
    if reject_with_nominated(demand, info, nominated) is None:
        return True
    info.remove(pod.uid)
    return False


def importance(pod: PodOnNode) -> tuple[int, str]:
    """Sorts the most important first: by priority, then the longest running."""
    return (-priority_of(pod.pod), start_of(pod.pod))


def start_of(pod: Object) -> str:
    """When the pod started; times of the API sort as text."""
    return (pod.get("status") or {}).get("startTime") or NOT_STARTED


def split_by_budget(pods: Sequence[PodOnNode], budgets: Sequence[Object]) -> tuple[list[PodOnNode], list[PodOnNode]]:
    """Pods whose eviction would break a disruption budget, and the others; each pod uses budgets up."""
    allowed = [(budget.get("status") or {}).get("disruptionsAllowed", 0) for budget in budgets]
    protected: list[PodOnNode] = []
    others: list[PodOnNode] = []
    for each in pods:
        broken = False
        for index, budget in enumerate(budgets):
            if covers(budget, each.pod):
                allowed[index] -= 1
                broken = broken or allowed[index] < 0
        (protected if broken else others).append(each)
    return protected, others


def covers(budget: Object, pod: Object) -> bool:
    """Whether the budget counts the pod: same namespace, a selector that matches, and not yet being disrupted."""
    if budget["metadata"].get("namespace") != pod["metadata"].get("namespace"):
        return False
    if pod["metadata"]["name"] in ((budget.get("status") or {}).get("disruptedPods") or {}):
        return False
    selector = (budget.get("spec") or {}).get("selector") or {}
    labels = pod["metadata"].get("labels") or {}
    return bool(selector) and matches_selector(selector, labels)


def best_of(candidates: Mapping[str, Victims]) -> str:
    """The node with the victims that are the least loss; each rule counts only if those before it do not decide."""

    def loss(node: str) -> tuple[int, int, int, int, list[int]]:
        victims = candidates[node]
        priorities = [priority_of(pod) for pod in victims.pods]
        first = min(start_of(pod) for pod in victims.pods if priority_of(pod) == max(priorities))
        later_is_better = [-ord(character) for character in first]
        return (
            victims.violations,
            priorities[0],
            sum(each + LIFT for each in priorities),
            len(priorities),
            later_is_better,
        )

    return min(candidates, key=loss)
