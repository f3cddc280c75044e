"""The upkeep of every cluster: taints of nodes, the furniture of namespaces, the use that quotas and budgets show, orphans. Pure.

Taints follow from a node's conditions: no pods go to a node on which they cannot run. The real node lifecycle controller also
notices kubelets that fall silent, and evicts; this one believes what nodes say. Every namespace has the ServiceAccount
``default`` and the certificate of the API server's authority.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from clusters.api.resources import (
    CONFIG_MAPS,
    NODES,
    POD_DISRUPTION_BUDGETS,
    RESOURCE_QUOTAS,
    SERVICE_ACCOUNTS,
    Resource,
)
from clusters.embedded.apiserver.api_admission import DEFAULT_ACCOUNT, ROOT_CA, hard_of, usage_of, written
from clusters.embedded.apiserver.api_selectors import matches_selector
from clusters.embedded.controllers.desired import (
    Action,
    Create,
    Delete,
    Object,
    Patch,
    is_active,
    is_ready,
    status_patch,
)

_PREFIX: Final = "node.kubernetes.io/"
# A condition and its status, to the taint that they mean.
_TAINTS: Final = {
    ("Ready", "False"): "not-ready",
    ("Ready", "Unknown"): "unreachable",
    ("MemoryPressure", "True"): "memory-pressure",
    ("DiskPressure", "True"): "disk-pressure",
    ("PIDPressure", "True"): "pid-pressure",
    ("NetworkUnavailable", "True"): "network-unavailable",
}
_UNSCHEDULABLE: Final = "unschedulable"
_OURS: Final = {_PREFIX + name for name in (*_TAINTS.values(), _UNSCHEDULABLE)}
_EFFECT: Final = "NoSchedule"


def tainted(nodes: Sequence[Object], now: str) -> list[Action]:
    """Bring each node's taints in line with its conditions; ``now`` is when a new one was added."""
    actions: list[Action] = []
    for node in nodes:
        there = node.get("spec", {}).get("taints") or []
        due = _due(node)
        kept = [taint for taint in there if not _is_ours(taint) or taint["key"] in due]
        new = [key for key in due if key not in {taint["key"] for taint in kept if _is_ours(taint)}]
        if new or len(kept) != len(there):
            taints = [*kept, *({"key": key, "effect": _EFFECT, "timeAdded": now} for key in new)]
            # If another client changed the node in between, its change wins; the next picture asks again.
            metadata = {"resourceVersion": node["metadata"]["resourceVersion"]}
            actions.append(Patch(NODES, node, {"metadata": metadata, "spec": {"taints": taints}}))
    return actions


def _due(node: Object) -> list[str]:
    conditions = node.get("status", {}).get("conditions") or []
    found = [_TAINTS.get((one["type"], one["status"])) for one in conditions]
    if node.get("spec", {}).get("unschedulable"):
        found.append(_UNSCHEDULABLE)
    return [_PREFIX + name for name in found if name]


def _is_ours(taint: Object) -> bool:
    return taint["key"] in _OURS and taint.get("effect") == _EFFECT


def furnished(
    namespaces: Sequence[Object], accounts: Sequence[Object], maps: Sequence[Object], ca: str
) -> list[Action]:
    """Make what is missing, and put back what was changed; ``ca`` is empty for a cluster that has no certificates."""
    known = {_place(item) for item in accounts}
    published = {_place(item): item for item in maps}
    actions: list[Action] = []
    for namespace in namespaces:
        name = namespace["metadata"]["name"]
        if namespace["metadata"].get("deletionTimestamp"):
            continue
        if (name, DEFAULT_ACCOUNT) not in known:
            metadata = {"name": DEFAULT_ACCOUNT, "namespace": name}
            actions.append(Create({"apiVersion": "v1", "kind": SERVICE_ACCOUNTS.kind, "metadata": metadata}))
        if ca:
            actions += _published(name, published.get((name, ROOT_CA)), ca)
    return actions


def _published(namespace: str, there: Object | None, ca: str) -> list[Action]:
    data = {"ca.crt": ca}
    if there is None:
        metadata = {"name": ROOT_CA, "namespace": namespace}
        return [Create({"apiVersion": "v1", "kind": CONFIG_MAPS.kind, "metadata": metadata, "data": data})]
    return [] if there.get("data") == data else [Patch(CONFIG_MAPS, there, {"data": data})]


def _place(item: Object) -> tuple[str, str]:
    return item["metadata"]["namespace"], item["metadata"]["name"]


def counted(quotas: Sequence[Object], pods: Sequence[Object]) -> list[Action]:
    """Writes of the status of quotas that show another use than the counted one."""
    actions: list[Action] = []
    for quota in quotas:
        namespace, hard = quota["metadata"]["namespace"], hard_of(quota)
        mine = [pod for pod in pods if pod["metadata"]["namespace"] == namespace]
        status = {"hard": hard, "used": written(usage_of(mine, hard))}
        known = quota.get("status") or {}
        if any((known.get(key) or {}) != value for key, value in status.items()):
            gone = {key: {name: None for name in known.get(key) or {} if name not in status[key]} for key in status}
            patch = {"status": {key: {**gone[key], **status[key]} for key in status}}
            actions.append(Patch(RESOURCE_QUOTAS, quota, patch, "status"))
    return actions


def budget(item: Object, pods: Sequence[Object], owners: Sequence[Object]) -> list[Action]:
    """Write how many pods there are, are healthy, must be, and may go."""
    selector, namespace = item["spec"].get("selector"), item["metadata"]["namespace"]
    mine = [
        pod
        for pod in pods
        if selector is not None
        and pod["metadata"]["namespace"] == namespace
        and is_active(pod)
        and matches_selector(selector, pod["metadata"].get("labels") or {})
    ]
    healthy = sum(map(is_ready, mine))
    expected = _expected(mine, owners)
    desired = _desired(item["spec"], expected)
    there = {pod["metadata"]["name"] for pod in mine}
    leaving = there.intersection((item.get("status") or {}).get("disruptedPods") or {})
    return status_patch(
        POD_DISRUPTION_BUDGETS,
        item,
        currentHealthy=healthy,
        desiredHealthy=desired,
        expectedPods=expected,
        disruptionsAllowed=max(healthy - len(leaving) - desired, 0) if expected else 0,
        observedGeneration=item["metadata"].get("generation", 1),
    )


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
        return max(expected - _share(spec["maxUnavailable"], expected), 0)
    return _share(spec.get("minAvailable", 1), expected)


def _share(value: int | str, of: int) -> int:
    if isinstance(value, int):
        return value
    return math.ceil(int(value.removesuffix("%")) * of / 100) if value.endswith("%") else int(value)


def orphans(items: Sequence[tuple[Resource, Object]], uids: set[str], kinds: set[str]) -> list[Action]:
    """Objects without a living owner. Owners of kinds other than ``kinds`` are not known, and may exist."""
    return [
        Delete(resource, item, is_orphan=True)
        for resource, item in items
        if not item["metadata"].get("deletionTimestamp") and _is_orphan(item, uids, kinds)
    ]


def _is_orphan(item: Object, uids: set[str], kinds: set[str]) -> bool:
    owners = item["metadata"].get("ownerReferences") or ()
    return bool(owners) and all(one.get("kind") in kinds and one["uid"] not in uids for one in owners)
