"""The gain and the cost of a pod's end, for preemption. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, Final

from msgspec import Struct

from gpushare import wire
from gpushare.bounds import (
    BUDGETS_OF_A_NAMESPACE,
    LABELS_OF_A_POD,
    RESOURCES_OF_A_POD,
    SELECTOR_TERMS,
    SELECTOR_VALUES,
)
from gpushare.manifests import (
    Container,
    DisruptionBudget,
    DisruptionBudgetSpec,
    LabelRequirement,
    LabelSelector,
    ObjectMeta,
    Pod,
    Resources,
)
from gpushare.model.pod import all_containers, is_deleting, is_lingering, worst_moment
from gpushare.model.quantity import parse_milli

Amounts = tuple[tuple[str, int], ...]
Labels = tuple[tuple[str, str], ...]
Budgets = Mapping[str, Sequence[DisruptionBudget]]


class Evictable(Struct, frozen=True, gc=False):
    """The part of a bound pod that matters if it may be evicted.

    ``labels`` are none for a pod that has more than anyone looks at. ``others`` is what it has of resources beside card memory, in
    thousandths of a unit. ``is_entangled`` means that whether another pod may come to its node can depend on more of it than these
    (ports, volumes, neighbours, too many resources). ``is_ending``: it goes anyway. ``is_lingering``: see ``model.pod``.
    """

    priority: int
    labels: Labels
    others: Amounts
    is_entangled: bool
    is_ending: bool
    is_lingering: bool = False


# A pod that the API has not shown bound yet: no pod is of a higher priority, which is a number of 32 bits.
FIXED: Final = Evictable(2**31, (), (), is_entangled=True, is_ending=False)


def evictable_of(pod: Pod) -> Evictable:
    """A pod as a possible victim."""
    labels = pod.metadata.labels or {}
    found: Evictable = shared(
        Evictable(
            priority=pod.spec.priority or 0,
            labels=() if LABELS_OF_A_POD.exceeded(len(labels)) else shared(tuple(sorted(labels.items()))),
            others=shared(other_requests(pod)),
            is_entangled=is_entangled(pod),
            is_ending=is_deleting(pod),
            is_lingering=is_lingering(pod),
        )
    )
    return found


@lru_cache(maxsize=8192)
def shared(value: Any) -> Any:
    """One object for equal values: the pods of a Deployment are thousands, and alike."""
    return value


def other_requests(pod: Pod) -> Amounts:
    """The requests of the pod beside card memory, in thousandths of a unit; what is no quantity counts as nothing.

    Nothing for a pod that names too many: it is entangled.
    """
    names = _names(pod)
    if RESOURCES_OF_A_POD.exceeded(len(names)):
        return ()
    return tuple((name, worst_moment(pod, partial(_other_amount, name))) for name in sorted(names))


def _names(pod: Pod) -> set[str]:
    """The resources beside card memory that its containers ask for."""
    resources = (one.resources for one in all_containers(pod) if one.resources is not None)
    return {name for one in resources for name in (*(one.limits or ()), *(one.requests or ()))} - {wire.RESOURCE_MEMORY}


def _other_amount(name: str, container: Container) -> int:
    resources = container.resources or Resources()
    requests, limits = resources.requests or {}, resources.limits or {}
    return parse_milli(requests.get(name, limits.get(name, 0)))


def is_entangled(pod: Pod) -> bool:
    """Does a scheduler look at more of this pod than at its resources, or at more of them than are kept?"""
    spec = pod.spec
    affinity = spec.affinity or {}
    return bool(
        affinity.get("podAffinity")
        or affinity.get("podAntiAffinity")
        or spec.topology_spread_constraints
        or any(volume.persistent_volume_claim for volume in spec.volumes or ())
        or any(port.host_port for container in spec.containers or () for port in container.ports or ())
        or RESOURCES_OF_A_POD.exceeded(len(_names(pod)))
    )


def kept_budget(budget: DisruptionBudget) -> DisruptionBudget:
    """The part of a budget that stays in memory. One that selects by more than is compared selects nothing."""
    metadata, selector = budget.metadata, budget.spec.selector
    return DisruptionBudget(
        ObjectMeta(metadata.name, metadata.namespace),
        DisruptionBudgetSpec(None if selector is None or _is_too_large(selector) else selector),
        budget.status,
    )


def _is_too_large(selector: LabelSelector) -> bool:
    labels, expressions = selector.match_labels or {}, selector.match_expressions or ()
    return SELECTOR_TERMS.exceeded(len(labels) + len(expressions)) or any(
        SELECTOR_VALUES.exceeded(len(one.values or ())) for one in expressions
    )


def by_namespace(budgets: Iterable[DisruptionBudget]) -> Budgets:
    """The budgets of each namespace; of one that has too many the first."""
    found: defaultdict[str, list[DisruptionBudget]] = defaultdict(list)
    for budget in budgets:
        of_namespace = found[budget.metadata.namespace]
        if not BUDGETS_OF_A_NAMESPACE.exceeded(len(of_namespace) + 1):
            of_namespace.append(budget)
    return found


def protected(pods: Iterable[tuple[str, str, Evictable]], budgets: Budgets) -> Iterator[bool]:
    """For each ``(namespace, name, pod)`` in turn: would its eviction, after those before it, break a budget?

    The scheduler's own rule (``filterPodsWithPDBViolation``): each pod takes one from every budget that is about it, unless its
    eviction is counted there already; no budget is about a pod without labels.
    """
    taken: Counter[tuple[str, int]] = Counter()
    for namespace, name, pod in pods:
        broken = False
        labels = dict(pod.labels)
        for at, budget in enumerate(budgets.get(namespace, ()) if labels else ()):
            if not _selects(budget.spec.selector, labels) or name in (budget.status.disrupted_pods or {}):
                continue
            taken[namespace, at] += 1
            broken = broken or taken[namespace, at] > budget.status.disruptions_allowed
        yield broken


def _selects(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """An absent selector selects nothing, and so does an empty one here, as in the scheduler."""
    if selector is None or not (selector.match_labels or selector.match_expressions):
        return False
    return match_labels(labels, selector.match_labels, selector.match_expressions)


def match_labels(
    labels: Mapping[str, str], wanted: Mapping[str, str] | None, requirements: Iterable[LabelRequirement] | None = None
) -> bool:
    """Do labels have all wanted values and meet all requirements? An operator that Kubernetes does not have is met by none."""
    return (wanted or {}).items() <= labels.items() and all(_holds(one, labels) for one in requirements or ())


def _holds(requirement: LabelRequirement, labels: Mapping[str, str]) -> bool:
    """The selector of a node can compare, too, which the API server refuses in a label selector."""
    value, values = labels.get(requirement.key), requirement.values or ()
    match requirement.operator:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt" as operator:
            return _compares(operator, value, values)
        case _:
            return False


def _compares(operator: str, value: str | None, values: Sequence[str]) -> bool:
    try:
        ours, theirs = map(int, (value or "", *values))
    except ValueError:
        return False
    return ours > theirs if operator == "Gt" else ours < theirs
