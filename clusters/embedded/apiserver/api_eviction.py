"""Whether a pod may be evicted: what budgets say that speak of it. Pure.

Rules: Kubernetes ``registry/core/pod/storage/eviction``; the budgets' status is the disruption controller's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from clusters.embedded.apiserver.api_objects import Object, is_deleting, labels_of, name_of
from clusters.embedded.apiserver.api_selectors import matches_selector
from clusters.embedded.apiserver.refusals import RefusalError, internal

_REFUSED: Final = "Cannot evict pod as it would violate the pod's disruption budget."
_NOT_RUNNING: Final = ("Succeeded", "Failed", "Pending")


def counted(pod: Object, budgets: Sequence[Object], now: str) -> Object | None:
    """The budget with one disruption less, None if no budget has to count it. Raises RefusalError (429, 500)."""
    if is_deleting(pod) or (pod.get("status") or {}).get("phase") in _NOT_RUNNING:
        return None
    mine = [one for one in budgets if _is_about(one, pod)]
    if len(mine) > 1:
        raise internal(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        )
    if not mine or _is_spare(pod, mine[0]):
        return None
    budget, status = mine[0], mine[0].get("status") or {}
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        raise _refused(f"The disruption budget {name_of(budget)} is still being processed by the server.")
    allowed, healthy = status.get("disruptionsAllowed", 0), status.get("currentHealthy", 0)
    if allowed <= 0:
        needs = f"needs {status.get('desiredHealthy', 0)} healthy pods and has {healthy} currently"
        raise _refused(f"The disruption budget {name_of(budget)} {needs}")
    disrupted = {**status.get("disruptedPods", {}), name_of(pod): now}
    return {**budget, "status": {**status, "disruptionsAllowed": allowed - 1, "disruptedPods": disrupted}}


def _is_about(budget: Object, pod: Object) -> bool:
    selector = budget.get("spec", {}).get("selector")
    return selector is not None and matches_selector(selector, labels_of(pod))


def _is_spare(pod: Object, budget: Object) -> bool:
    """A pod that is not ready does not count if enough others are."""
    conditions = (pod.get("status") or {}).get("conditions", [])
    if any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions):
        return False
    status, always = budget.get("status") or {}, budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow"
    desired: int = status.get("desiredHealthy", 0)
    return bool(always or (desired > 0 and status.get("currentHealthy", 0) >= desired))


def _refused(why: str) -> RefusalError:
    causes = [{"reason": "DisruptionBudget", "message": why}]
    return RefusalError(429, "TooManyRequests", _REFUSED, {"causes": causes})
