"""What the end of a pod would give back, and what it would cost. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from gpushare import wire
from gpushare.errors import InvalidQuantityError
from gpushare.manifests import Container, DisruptionBudget, LabelRequirement, LabelSelector, Pod
from gpushare.model.pod import is_deleting, worst_moment
from gpushare.model.quantity import parse_quantity

Amounts = tuple[tuple[str, int], ...]
Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Evictable:
    """A bound pod, as one looks at it who may evict it.

    ``others`` is what it has of resources beside card memory, in thousandths of a unit. ``is_entangled`` says that whether another
    pod may come to its node can depend on more of it than resources (ports, volumes, neighbours). ``is_ending``: it goes anyway.
    """

    priority: int
    labels: Labels
    others: Amounts
    is_entangled: bool
    is_ending: bool


def evictable_of(pod: Pod) -> Evictable:
    """A pod as a possible victim."""
    return Evictable(
        priority=pod.spec.priority or 0,
        labels=_shared_labels(tuple(sorted((pod.metadata.labels or {}).items()))),
        others=_shared_amounts(other_requests(pod)),
        is_entangled=is_entangled(pod),
        is_ending=is_deleting(pod),
    )


def other_requests(pod: Pod) -> Amounts:
    """What the pod asks for beside card memory, in thousandths of a unit; what is no quantity counts as nothing."""
    containers = [*(pod.spec.init_containers or ()), *(pod.spec.containers or ())]
    names = {name for container in containers for name in _requests(container)} - {wire.RESOURCE_MEMORY}

    def amount(name: str) -> int:
        return worst_moment(pod, lambda container: _thousandths(str(_requests(container).get(name, 0))))

    return tuple((name, amount(name)) for name in sorted(names))


def is_entangled(pod: Pod) -> bool:
    """Does a scheduler look at more of this pod than at its resources?"""
    spec = pod.spec
    affinity = spec.affinity
    return bool(
        (affinity is not None and (affinity.pod_affinity or affinity.pod_anti_affinity))
        or spec.topology_spread_constraints
        or any(volume.persistent_volume_claim for volume in spec.volumes or ())
        or any(port.host_port for container in spec.containers or () for port in container.ports or ())
    )


def protected(pods: Iterable[tuple[str, str, Evictable]], budgets: Iterable[DisruptionBudget]) -> Iterator[bool]:
    """For each ``(namespace, name, pod)`` in turn: would its eviction, after those before it, break a budget?

    The scheduler's own rule (``filterPodsWithPDBViolation``): each pod takes one from every budget that is about it, unless its
    eviction is counted there already; a pod without labels is nobody's.
    """
    left = [(budget, _Left(budget.status.disruptions_allowed)) for budget in budgets]
    for namespace, name, pod in pods:
        broken = False
        labels = dict(pod.labels)
        for budget, allowed in left:
            if budget.metadata.namespace != namespace or not labels or not _selects(budget.spec.selector, labels):
                continue
            if name in (budget.status.disrupted_pods or {}):
                continue
            allowed.count -= 1
            broken = broken or allowed.count < 0
        yield broken


@dataclass(slots=True)
class _Left:
    count: int


def _selects(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """An absent selector selects nothing, and so does an empty one here, as in the scheduler."""
    if selector is None or not (selector.match_labels or selector.match_expressions):
        return False
    wanted = (selector.match_labels or {}).items()
    return all(labels.get(key) == value for key, value in wanted) and all(
        _holds(requirement, labels) for requirement in selector.match_expressions or ()
    )


def _holds(requirement: LabelRequirement, labels: Mapping[str, str]) -> bool:
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
        case _:
            return False


def _requests(container: Container) -> Mapping[str, str | int | float]:
    """Of one container; a limit is a request where none is said."""
    resources = container.resources
    return {} if resources is None else {**(resources.limits or {}), **(resources.requests or {})}


@lru_cache(maxsize=4096)
def _thousandths(text: str) -> int:
    try:
        return int(parse_quantity(text) * 1000)
    except InvalidQuantityError:
        return 0


# One object for equal values: the pods of a Deployment are thousands, and alike.
@lru_cache(maxsize=65536)
def _shared_labels(value: Labels) -> Labels:
    return value


@lru_cache(maxsize=4096)
def _shared_amounts(value: Amounts) -> Amounts:
    return value
