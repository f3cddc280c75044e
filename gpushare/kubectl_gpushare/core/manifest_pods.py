"""The pods of manifests: which pod each object makes, and how many of them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from gpushare.errors import UsageError

# The field that has the number of pods; a CronJob makes Jobs.
_NUMBER: Final = {
    "Deployment": "replicas",
    "ReplicaSet": "replicas",
    "ReplicationController": "replicas",
    "StatefulSet": "replicas",
    "Job": "parallelism",
}


class PodsOfObject(NamedTuple):
    """An object of a manifest: its kind and name, its namespace ("" if it names none), one of its pods, and how many there are."""

    title: str
    namespace: str
    pod: dict[str, Any]
    replicas: int


def pods_of(documents: Iterable[Any]) -> Iterator[PodsOfObject]:
    """The pods of each object. Raises UsageError for an object that makes none."""
    for document in documents:
        if document is None:
            continue
        if not isinstance(document, dict):
            raise UsageError("a document of the manifest is no object of Kubernetes")
        if isinstance(document.get("items"), list):
            yield from pods_of(document["items"])
        else:
            yield _of_object(document)


def _of_object(document: Mapping[str, Any]) -> PodsOfObject:
    kind, spec, metadata = str(document.get("kind", "")), _map(document, "spec"), _map(document, "metadata")
    title = f"{kind.lower()}/{metadata.get('name') or metadata.get('generateName') or 'unnamed'}"
    namespace = str(metadata.get("namespace") or "")
    if kind == "Pod":
        return PodsOfObject(title, namespace, _pod(document), 1)
    if kind == "CronJob":
        kind, spec = "Job", _map(_map(spec, "jobTemplate"), "spec")
    if kind not in _NUMBER:
        known = ", ".join(("Pod", *_NUMBER, "CronJob", "List"))
        raise UsageError(f"{title} has no pods that a scheduler places; there are {known}")
    number = spec.get(_NUMBER[kind])
    if number is not None and (not isinstance(number, int) or number < 0):
        raise UsageError(f"{title}: {_NUMBER[kind]} is no number of pods")
    return PodsOfObject(title, namespace, _pod(_map(spec, "template")), 1 if number is None else number)


def _pod(template: Mapping[str, Any]) -> dict[str, Any]:
    """The pod of a template, which has no name yet."""
    metadata = {name: value for name, value in _map(template, "metadata").items() if name in ("annotations", "labels")}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": dict(_map(template, "spec"))}


def _map(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A field that is a map. Raises UsageError for anything else."""
    value = document.get(name) or {}
    if not isinstance(value, dict):
        raise UsageError(f"{name} in the manifest is no map")
    return value
