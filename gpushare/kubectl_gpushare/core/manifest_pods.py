"""The pods of manifests: which pod each object makes, and how many of them at once. Pure.

The numbers are those of Kubernetes' own controllers, for an object that is about to be created and for one that was read from a
cluster. An object without pods is passed over. One that has pods, but only its own controller knows how many, is not judged.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from gpushare.errors import UsageError

_SUSPENDED: Final = "it is suspended: it makes no pod until it is resumed"
_PAUSED: Final = "it is paused: it makes no pod until it is resumed"
_REPLICATED: Final = ("Deployment", "ReplicaSet", "ReplicationController", "StatefulSet")
KINDS: Final = ("Pod", *_REPLICATED, "DaemonSet", "Job", "CronJob", "PodTemplate", "List")
_INDICES: Final = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?", re.ASCII)
_ENDED: Final = ("Succeeded", "Failed")
# Conditions after which a Job makes no pod.
_FINISHED: Final = ("Complete", "Failed", "SuccessCriteriaMet", "FailureTarget")
# The DaemonSet controller adds these to each of its pods; the last one only on the host's network.
_DAEMONS_TOLERATE: Final = tuple(
    {"key": f"node.kubernetes.io/{name}", "operator": "Exists", "effect": effect}
    for name, effect in (
        ("not-ready", "NoExecute"), ("unreachable", "NoExecute"), ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"), ("pid-pressure", "NoSchedule"), ("unschedulable", "NoSchedule"),
        ("network-unavailable", "NoSchedule"),
    )
)  # fmt: skip


class Size(NamedTuple):
    """How many pods an object has at once, and a note on why, if the object's own numbers do not show it."""

    pods: int
    note: str = ""


class PodsOfObject(NamedTuple):
    """An object of a manifest: its kind and name, its namespace ("" if it names none), one of its pods, and how many there are.

    ``on_each_node``: one on each node that takes such a pod, whatever ``replicas`` is. ``uid``: of an object that was read from a
    cluster, where some of its pods may be bound; ``owner`` is the uid of its controller.
    """

    title: str
    namespace: str
    pod: dict[str, Any]
    replicas: int
    note: str = ""
    on_each_node: bool = False
    uid: str = ""
    owner: str = ""


@dataclass(slots=True)
class Manifest:
    """The objects of manifests: those with pods, the titles of those without, and why others are not judged."""

    workloads: list[PodsOfObject] = field(default_factory=list)
    passed_over: list[str] = field(default_factory=list)
    unjudged: list[str] = field(default_factory=list)

    def take(self, documents: Iterable[Any]) -> None:
        """The objects of these documents too, those of lists among them. Raises UsageError for what is no object."""
        for document in documents:
            if document is None:
                continue
            kind = document.get("kind") if isinstance(document, dict) else None
            if not (isinstance(kind, str) and kind):
                raise UsageError("a document of the manifest is no object of Kubernetes: it has no kind")
            if kind.endswith("List") and "items" in document:
                # The items of a typed list need not name their kind.
                of_items = {"kind": kind.removesuffix("List")} if kind != "List" else {}
                self.take({**of_items, **one} if isinstance(one, dict) else one for one in _list(document, "items"))
            else:
                self._take_object(kind, document)

    def drop_owned(self) -> None:
        """Leave out what another object here makes, as in ``kubectl get all -o yaml``: its pods are counted with that one's.

        The Job of a CronJob stays, because that one counts the pods of its next run.
        """
        uids = {one.uid for one in self.workloads}
        self.workloads = [one for one in self.workloads if not one.owner or one.owner not in uids]

    def _take_object(self, kind: str, document: Mapping[str, Any]) -> None:
        metadata = _map(document, "metadata")
        title = f"{kind.lower()}/{metadata.get('name') or metadata.get('generateName') or 'unnamed'}"
        # The API groups of others have a dot: a Job of batch.volcano.sh is another object.
        is_known = kind in KINDS and "." not in str(document.get("apiVersion") or "").rpartition("/")[0]
        if is_known:
            size = _size(kind, title, document)
            namespace, uid = str(metadata.get("namespace") or ""), str(metadata.get("uid") or "")
            on_each_node = kind == "DaemonSet" and not size.note
            controllers = [
                one for one in _list(metadata, "ownerReferences") if isinstance(one, dict) and one.get("controller")
            ]
            owner = next((str(one.get("uid")) for one in controllers if one.get("kind") != "CronJob"), "")
            self.workloads.append(PodsOfObject(title, namespace, _pod(kind, document), *size, on_each_node, uid, owner))
        elif _has_containers(document):
            self.unjudged.append(
                f"{title}: only its own controller knows how many pods it makes; give one of them as a Pod, with --replicas"
            )
        else:
            self.passed_over.append(title)


def _size(kind: str, title: str, document: Mapping[str, Any]) -> Size:
    spec, status = _map(document, "spec"), _map(document, "status")
    if _map(document, "metadata").get("deletionTimestamp"):
        return Size(0, "it is being deleted")
    if kind in _REPLICATED:
        is_paused = kind == "Deployment" and spec.get("paused") and not status.get("replicas")
        return Size(0, _PAUSED) if is_paused else Size(_number(title, spec, "replicas", 1))
    match kind:
        case "Pod":
            return _size_of_pod(document, spec, status)
        case "Job":
            return _size_of_job(title, spec, status)
        case "CronJob":
            return _size_of_cron_job(title, spec)
        case _:
            return Size(0, "a PodTemplate makes no pod by itself" if kind == "PodTemplate" else "")


def _size_of_cron_job(title: str, spec: Mapping[str, Any]) -> Size:
    if spec.get("suspend"):
        return Size(0, "it is suspended: it starts no Job until it is resumed")
    pods, note = _size_of_job(title, _map(_map(spec, "jobTemplate"), "spec"), {})
    overlap = "" if spec.get("concurrencyPolicy") in ("Forbid", "Replace") else "; runs may overlap"
    return Size(pods, "; ".join(filter(None, [note, f"the pods of one run{overlap}"])))


def _size_of_pod(document: Mapping[str, Any], spec: Mapping[str, Any], status: Mapping[str, Any]) -> Size:
    """A manifest may name a node too; only what the API server has made has a uid."""
    if status.get("phase") in _ENDED:
        return Size(0, "it has ended")
    if spec.get("nodeName") and _map(document, "metadata").get("uid"):
        return Size(0, f"it is bound to node {spec['nodeName']} already")
    return Size(1)


def _size_of_job(title: str, spec: Mapping[str, Any], status: Mapping[str, Any]) -> Size:
    """As the Job controller counts (``manageJob``): never more than are left to complete."""
    parallelism, completions = _number(title, spec, "parallelism", 1), _number(title, spec, "completions", -1)
    done = _number(title, status, "succeeded", 0)
    conditions = [one for one in _list(status, "conditions") if isinstance(one, dict)]
    if any(one.get("type") in _FINISHED and one.get("status") == "True" for one in conditions):
        return Size(0, "it has finished")
    if spec.get("suspend"):
        return Size(0, _SUSPENDED)
    if parallelism == 0:
        return Size(0, "it is paused: its parallelism is 0")
    if completions < 0:
        # Its pods share a queue. Once one has succeeded, it makes no more.
        left = min(parallelism, _number(title, status, "active", 0)) if done else parallelism
        return Size(left, "a pod of it has succeeded, so it makes no more" if done else "")
    left = max(completions - done - _numbers_in(str(status.get("failedIndexes") or "")), 0)
    if left == completions:
        return Size(min(parallelism, left), f"{parallelism} at once, of {completions}" if left > parallelism else "")
    return Size(min(parallelism, left), f"{left} of its {completions} completions are left")


def _numbers_in(text: str) -> int:
    """How many indices a Job's status names, such as ``1,3-5,7``; a part that cannot be read is none."""
    parts = map(_INDICES.fullmatch, text.split(","))
    return sum(max(int(part[2] or part[1]) - int(part[1]) + 1, 0) for part in parts if part)


def _number(title: str, fields: Mapping[str, Any], name: str, default: int) -> int:
    """Raises UsageError for what is no number of pods."""
    number = fields.get(name)
    if number is None:
        return default
    if isinstance(number, bool) or not isinstance(number, int) or number < 0:
        raise UsageError(f"{title}: {name} is no number of pods")
    return number


def _pod(kind: str, document: Mapping[str, Any]) -> dict[str, Any]:
    """One pod, which has no name yet."""
    template = document if kind == "Pod" else _map(document, "template")
    if kind not in ("Pod", "PodTemplate"):
        spec = _map(document, "spec")
        template = _map(_map(_map(spec, "jobTemplate"), "spec") if kind == "CronJob" else spec, "template")
    metadata = {name: value for name, value in _map(template, "metadata").items() if name in ("annotations", "labels")}
    made = dict(_map(template, "spec"))
    if kind == "DaemonSet":
        added = _DAEMONS_TOLERATE if made.get("hostNetwork") else _DAEMONS_TOLERATE[:-1]
        made["tolerations"] = [*_list(made, "tolerations"), *added]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": made}


def _has_containers(value: Any) -> bool:
    if isinstance(value, list):
        return any(map(_has_containers, value))
    if not isinstance(value, dict):
        return False
    containers = value.get("containers")
    is_spec = isinstance(containers, list) and any(isinstance(one, dict) and "name" in one for one in containers)
    return is_spec or any(map(_has_containers, value.values()))


def _map(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A field that is a map. Raises UsageError for anything else."""
    value = document.get(name) or {}
    if not isinstance(value, dict):
        raise UsageError(f"{name} in the manifest is no map")
    return value


def _list(document: Mapping[str, Any], name: str) -> list[Any]:
    """A field that is a list. Raises UsageError for anything else."""
    value = document.get(name) or []
    if not isinstance(value, list):
        raise UsageError(f"{name} in the manifest is no list")
    return value
