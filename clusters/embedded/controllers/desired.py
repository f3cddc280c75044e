"""The next writes of a workload's controller, from the objects that it owns. Pure, level-triggered.

Simpler than the real ones if no pod of ours can notice: no surge arithmetic (new pods come first, old ones go as they get
ready), no numbers of revisions.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from clusters.api.api_client import is_terminal
from clusters.api.resources import DAEMON_SETS, DEPLOYMENTS, PODS, REPLICA_SETS, STATEFUL_SETS, Resource
from clusters.embedded.apiserver.api_admission import LETTERS
from clusters.embedded.scheduling.fit import accepts_node, untolerated_taint

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Create:
    """Make this object."""

    manifest: Object


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete this object; ``is_orphan``: only if the API server, too, finds its owners gone."""

    resource: Resource
    item: Object
    is_orphan: bool = False


@dataclass(frozen=True, slots=True)
class Patch:
    """Change part of an object; its status if ``subresource`` is set."""

    resource: Resource
    item: Object
    patch: Object
    subresource: str | None = None


@dataclass(frozen=True, slots=True)
class Empty:
    """Take away everything in this namespace, then the namespace."""

    namespace: Object


Action = Create | Delete | Patch | Empty


def is_active(pod: Object) -> bool:
    """Does the pod count: not ended, not leaving?"""
    return not is_terminal(pod) and not pod["metadata"].get("deletionTimestamp")


def is_ready(pod: Object) -> bool:
    """Is its condition Ready true?"""
    return any(one["type"] == "Ready" and one["status"] == "True" for one in pod["status"].get("conditions") or ())


def least_worth(pods: Sequence[Object]) -> list[Object]:
    """Pods that do not run yet come first, then the youngest."""
    return sorted(pods, key=lambda pod: (is_ready(pod), -int(pod["metadata"]["resourceVersion"])))


def child(owner: Object, resource: Resource, name: Object, body: Object) -> Object:
    """An object of this owner's; ``name`` is name or generateName."""
    template = body.get("metadata") or {}
    metadata: Object = {key: dict(template[key]) for key in ("labels", "annotations") if template.get(key)}
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    metadata |= {**name, "namespace": owner["metadata"]["namespace"], "ownerReferences": [reference]}
    rest = {key: value for key, value in body.items() if key not in ("metadata", "apiVersion", "kind", "status")}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **rest}


def status_patch(resource: Resource, item: Object, **status: Any) -> list[Action]:
    """A write of the status, if it differs."""
    old = item.get("status") or {}
    if all(old.get(key, 0) == value for key, value in status.items()):
        return []
    return [Patch(resource, item, {"status": status}, "status")]


def leaving(pods: Iterable[Object]) -> list[Action]:
    """Deletions of the pods that are not being deleted."""
    return [Delete(PODS, pod) for pod in pods if not pod["metadata"].get("deletionTimestamp")]


# The taints of a node that daemons tolerate.
_TOLERATED: Final = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
# Which template a pod was made of.
_REVISION_LABEL: Final = "controller-revision-hash"


def replica_set(owner: Object, pods: Sequence[Object]) -> list[Action]:
    """Keep this number of pods; ended ones do not count."""
    active = [pod for pod in pods if is_active(pod)]
    wanted = owner["spec"].get("replicas", 1)
    prefix = {"generateName": owner["metadata"]["name"] + "-"}
    actions: list[Action] = [
        Create(child(owner, PODS, prefix, owner["spec"]["template"])) for _ in range(wanted - len(active))
    ]
    actions += [Delete(PODS, pod) for pod in least_worth(active)[: max(len(active) - wanted, 0)]]
    ready = sum(map(is_ready, active))
    return actions + status_patch(
        REPLICA_SETS,
        owner,
        replicas=len(active),
        fullyLabeledReplicas=len(active),
        terminatingReplicas=sum(
            bool(pod["metadata"].get("deletionTimestamp")) and not is_terminal(pod) for pod in pods
        ),
        readyReplicas=ready,
        availableReplicas=ready,
        observedGeneration=owner["metadata"].get("generation", 1),
    )


def template_hash(template: Object) -> str:
    """A short name for a template."""
    text = json.dumps(template, sort_keys=True)
    number = int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")
    return "".join(LETTERS[ord(digit) % len(LETTERS)] for digit in str(number))


def deployment(owner: Object, sets: Sequence[Object]) -> list[Action]:
    """One ReplicaSet for the template; older ones shrink as it gets ready."""
    digest = template_hash(owner["spec"]["template"])
    name = f"{owner['metadata']['name']}-{digest}"
    wanted = owner["spec"].get("replicas", 1)
    current = next((one for one in sets if one["metadata"]["name"] == name), None)
    if current is None:
        return [Create(_replica_set_of(owner, name, digest, wanted))]
    actions: list[Action] = []
    if current["spec"].get("replicas") != wanted:
        actions.append(Patch(REPLICA_SETS, current, {"spec": {"replicas": wanted}}))
    ready = (current.get("status") or {}).get("readyReplicas", 0)
    old = [one for one in sets if one is not current and one["spec"].get("replicas", 0) > 0]
    left = max(wanted - ready, 0)
    for one in old:
        keep = min(one["spec"]["replicas"], left)
        left -= keep
        if keep != one["spec"]["replicas"]:
            actions.append(Patch(REPLICA_SETS, one, {"spec": {"replicas": keep}}))
    statuses = [one.get("status") or {} for one in sets]
    total, all_ready = (sum(one.get(key, 0) for one in statuses) for key in ("replicas", "readyReplicas"))
    return actions + status_patch(
        DEPLOYMENTS,
        owner,
        replicas=total,
        updatedReplicas=(current.get("status") or {}).get("replicas", 0),
        readyReplicas=all_ready,
        availableReplicas=all_ready,
        unavailableReplicas=max(wanted - all_ready, 0),
        conditions=_conditions(name, wanted, all_ready, (current.get("status") or {}).get("replicas", 0)),
        observedGeneration=owner["metadata"].get("generation", 1),
    )


def _conditions(name: str, wanted: int, ready: int, updated: int) -> list[Object]:
    """Whether enough pods are there, and whether the newest template has come through."""
    is_enough = ready >= wanted - wanted // 4
    word, verb = ("Available", "has") if is_enough else ("Unavailable", "does not have")
    available = {
        "type": "Available",
        "status": str(is_enough),
        "reason": f"MinimumReplicas{word}",
        "message": f"Deployment {verb} minimum availability.",
    }
    is_done = updated == wanted and ready == wanted
    progressing = {
        "type": "Progressing",
        "status": "True",
        "reason": "NewReplicaSetAvailable" if is_done else "ReplicaSetUpdated",
        "message": f'ReplicaSet "{name}" {"has successfully progressed" if is_done else "is progressing"}.',
    }
    return [available, progressing]


def _replica_set_of(owner: Object, name: str, digest: str, replicas: int) -> Object:
    template = owner["spec"]["template"]
    labels = {**(template["metadata"].get("labels") or {}), "pod-template-hash": digest}
    template = {**template, "metadata": {**template["metadata"], "labels": labels}}
    selector = owner["spec"]["selector"]
    selector = {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), "pod-template-hash": digest}}
    body = {"metadata": {"labels": labels}, "spec": {"replicas": replicas, "selector": selector, "template": template}}
    return child(owner, REPLICA_SETS, {"name": name}, body)


def stateful_set(owner: Object, pods: Sequence[Object]) -> list[Action]:
    """Pods by number; one that is leaving keeps its name until it is gone, an ended one is replaced."""
    mine = {pod["metadata"]["name"]: pod for pod in pods}
    name, wanted = owner["metadata"]["name"], owner["spec"].get("replicas", 1)
    parallel = owner["spec"].get("podManagementPolicy") == "Parallel"
    actions: list[Action] = []
    for number in range(wanted):
        pod = mine.get(f"{name}-{number}")
        if pod is None:
            actions.append(Create(_stateful_pod(owner, number)))
        elif is_terminal(pod) and not pod["metadata"].get("deletionTimestamp"):
            actions.append(Delete(PODS, pod))
        if not parallel and (pod is None or not is_active(pod) or not is_ready(pod)):
            break
    by_number = sorted(mine.values(), key=lambda pod: _number(pod["metadata"]["name"]), reverse=True)
    beyond = [pod for pod in by_number if _number(pod["metadata"]["name"]) >= wanted]
    actions += leaving(beyond if parallel else beyond[:1])
    partition = (owner["spec"].get("updateStrategy", {}).get("rollingUpdate") or {}).get("partition", 0)
    updated = [pod for pod in by_number if _number(pod["metadata"]["name"]) >= partition]
    actions += [] if actions else _replaced(owner, by_number, updated)
    ready = sum(is_active(pod) and is_ready(pod) for pod in mine.values())
    digest = template_hash(owner["spec"]["template"])
    revisions = [_revision_of(pod, digest) for pod in by_number]
    return actions + status_patch(
        STATEFUL_SETS,
        owner,
        replicas=len(mine),
        readyReplicas=ready,
        availableReplicas=ready,
        currentReplicas=len(mine),
        updatedReplicas=revisions.count(digest),
        currentRevision=f"{name}-{next((one for one in revisions if one != digest), digest)}",
        updateRevision=f"{name}-{digest}",
        observedGeneration=owner["metadata"].get("generation", 1),
    )


def _replaced(owner: Object, pods: Sequence[Object], may_go: Sequence[Object]) -> list[Action]:
    """A rolling update: the first pod of an older template goes, while all others run."""
    if owner["spec"].get("updateStrategy", {}).get("type") != "RollingUpdate":
        return []
    digest = template_hash(owner["spec"]["template"])
    stale = [pod for pod in may_go if _revision_of(pod, digest) != digest]
    if not stale or not all(is_active(pod) and is_ready(pod) for pod in pods if pod is not stale[0]):
        return []
    return leaving(stale[:1])


def _revision_of(pod: Object, default: str) -> str:
    labels: Object = pod["metadata"].get("labels") or {}
    return str(labels.get(_REVISION_LABEL, default))


def _number(name: str) -> int:
    return int(name.rpartition("-")[2])


def _stateful_pod(owner: Object, number: int) -> Object:
    name = f"{owner['metadata']['name']}-{number}"
    names = {"name": name, "generateName": f"{owner['metadata']['name']}-"}
    pod = child(owner, PODS, names, owner["spec"]["template"])
    labels = {
        "statefulset.kubernetes.io/pod-name": name,
        "apps.kubernetes.io/pod-index": str(number),
        _REVISION_LABEL: template_hash(owner["spec"]["template"]),
    }
    pod["metadata"].setdefault("labels", {}).update(labels)
    pod["spec"] = {**pod["spec"], "hostname": name, "subdomain": owner["spec"].get("serviceName", "")}
    return pod


def daemon_set(owner: Object, pods: Sequence[Object], nodes: Sequence[Object]) -> list[Action]:
    """One pod for each node that its selector takes, sent there through the scheduler."""
    wanted = {node["metadata"]["name"] for node in nodes if _takes(owner, node)}
    # A pod that is on its node stays there when a taint comes that only keeps new pods away.
    wanted |= {_target(pod) for pod in pods} & {node["metadata"]["name"] for node in nodes if _matches(owner, node)}
    by_node: dict[str, list[Object]] = {}
    for pod in pods:
        by_node.setdefault(_target(pod), []).append(pod)
    served = {node for node, found in by_node.items() if not all(is_terminal(pod) for pod in found)}
    actions: list[Action] = [Create(_daemon_pod(owner, node)) for node in sorted(wanted - served)]
    for node, found in by_node.items():
        ended = [pod for pod in found if is_terminal(pod) or node not in wanted]
        actions += leaving(ended)
    actions += [] if actions else _replaced(owner, pods, pods)
    active = [pod for found in by_node.values() for pod in found if is_active(pod)]
    ready = sum(map(is_ready, active))
    digest = template_hash(owner["spec"]["template"])
    return actions + status_patch(
        DAEMON_SETS,
        owner,
        desiredNumberScheduled=len(wanted),
        currentNumberScheduled=len(active),
        updatedNumberScheduled=sum(_revision_of(pod, digest) == digest for pod in active),
        numberReady=ready,
        numberAvailable=ready,
        numberMisscheduled=0,
        observedGeneration=owner["metadata"].get("generation", 1),
    )


def _matches(owner: Object, node: Object) -> bool:
    return accepts_node({"metadata": {}, **owner["spec"]["template"]}, node)


def _takes(owner: Object, node: Object) -> bool:
    return _matches(owner, node) and untolerated_taint(_daemon_pod(owner, node["metadata"]["name"]), node) is None


def _daemon_pod(owner: Object, node: str) -> Object:
    pod = child(owner, PODS, {"generateName": owner["metadata"]["name"] + "-"}, owner["spec"]["template"])
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    added = [{"key": key, "operator": "Exists", "effect": effect} for key, effect in _TOLERATED]
    tolerations = [*(pod["spec"].get("tolerations") or ()), *added]
    pod["spec"] = {**pod["spec"], "affinity": affinity, "tolerations": tolerations}
    pod["metadata"].setdefault("labels", {})[_REVISION_LABEL] = template_hash(owner["spec"]["template"])
    return pod


def _target(pod: Object) -> str:
    """The node that a daemon's pod is for."""
    terms = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    return str(terms[0]["matchFields"][0]["values"][0])
