"""The budgets of disruption: how many pods of a PodDisruptionBudget may go now. Pure.

Rules: Kubernetes ``controller/disruption``; pods without a controller count as one each.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from clusters.api.resources import POD_DISRUPTION_BUDGETS
from clusters.embedded.apiserver.api_selectors import matches_selector
from clusters.embedded.controllers.actions import Action, Object, is_active, is_ready, status_patch


def budget(item: Object, pods: Sequence[Object], owners: Sequence[Object]) -> list[Action]:
    """Write how many pods there are, are healthy, must be, and may go."""
    selector = item["spec"].get("selector")
    mine = [pod for pod in pods if selector is not None and _is_about(item, selector, pod)]
    healthy = sum(is_active(pod) and is_ready(pod) for pod in mine)
    expected = _expected(mine, owners)
    desired = _desired(item["spec"], expected)
    there = {pod["metadata"]["name"] for pod in mine if is_active(pod)}
    evicted = (item.get("status") or {}).get("disruptedPods") or {}
    leaving = {name: at for name, at in evicted.items() if name in there}
    return status_patch(
        POD_DISRUPTION_BUDGETS,
        item,
        currentHealthy=healthy,
        desiredHealthy=desired,
        expectedPods=expected,
        disruptionsAllowed=max(healthy - len(leaving) - desired, 0) if expected else 0,
        observedGeneration=item["metadata"].get("generation", 1),
    )


def _is_about(item: Object, selector: Object, pod: Object) -> bool:
    if pod["metadata"]["namespace"] != item["metadata"]["namespace"] or not is_active(pod):
        return False
    return matches_selector(selector, pod["metadata"].get("labels") or {})


def _expected(pods: Sequence[Object], owners: Sequence[Object]) -> int:
    """The number that their owners want; a pod without a controller counts as wanted."""
    by_uid = {owner["metadata"]["uid"]: owner for owner in owners}
    found: dict[str, int] = {}
    for pod in pods:
        controllers = [one["uid"] for one in pod["metadata"].get("ownerReferences") or () if one.get("controller")]
        uid = controllers[0] if controllers else pod["metadata"]["uid"]
        owner = by_uid.get(uid)
        found[uid] = owner["spec"].get("replicas", 1) if owner else 1
    return sum(found.values())


def _desired(spec: Object, expected: int) -> int:
    """How many must stay; parts are rounded up."""
    if spec.get("maxUnavailable") is not None:
        return max(expected - _number(spec["maxUnavailable"], expected), 0)
    return _number(spec.get("minAvailable", 1), expected)


def _number(value: int | str, of: int) -> int:
    if isinstance(value, int):
        return value
    return math.ceil(int(value.removesuffix("%")) * of / 100) if value.endswith("%") else int(value)
