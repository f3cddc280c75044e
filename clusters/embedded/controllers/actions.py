"""The possible writes, and the code that all workloads and their pods share. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from clusters.api.resources import PODS, Resource

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


def is_ended(pod: Object) -> bool:
    """Is it over with the pod?"""
    return pod["status"].get("phase") in ("Succeeded", "Failed")


def is_active(pod: Object) -> bool:
    """Does the pod count: not ended, not leaving?"""
    return not is_ended(pod) and not pod["metadata"].get("deletionTimestamp")


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
