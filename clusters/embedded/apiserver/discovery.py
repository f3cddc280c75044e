"""The server's answers about itself: its version, its groups, its kinds, and whether it is well. Pure."""

from __future__ import annotations

from typing import Final

from clusters.api.resources import ALL, MUTATING_ADMISSION_POLICIES, NAMESPACES, PODS, Resource
from clusters.embedded.apiserver.access_reviews import REVIEWS, Review
from clusters.embedded.apiserver.api_objects import Object
from clusters.embedded.apiserver.api_routes import BINDINGS, PROCESS_SUBRESOURCES, SCALED, subresources
from clusters.embedded.apiserver.refusals import group_of

VERSION: Final = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.3+gpushare-embedded",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "cpython",
    "platform": "linux/amd64",
}
_VERBS: Final = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
_SUBRESOURCE_KINDS: Final = {
    "binding": {"kind": "Binding", "verbs": ["create"]},
    "eviction": {"kind": "Eviction", "group": "policy", "version": "v1", "verbs": ["create"]},
    "log": {"kind": "Pod", "verbs": ["get"]},
    "finalize": {"kind": "Namespace", "verbs": ["update"]},
    "token": {"kind": "TokenRequest", "group": "authentication.k8s.io", "version": "v1", "verbs": ["create"]},
    "scale": {"kind": "Scale", "group": "autoscaling", "version": "v1", "verbs": ["get", "patch", "update"]},
}


def document(path: str) -> Object | None:
    """The discovery document at a path; None if there is none."""
    parts = path.strip("/").split("/")
    if parts == ["version"]:
        return dict(VERSION)
    if parts == ["api"]:
        return {"kind": "APIVersions", "versions": ["v1"]}
    if parts == ["apis"]:
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(name) for name in groups()]}
    if parts == ["api", "v1"]:
        return resource_list("v1")
    if parts[0] == "apis" and len(parts) == 2 and parts[1] in groups():
        return {"kind": "APIGroup", "apiVersion": "v1", **_group(parts[1])}
    if parts[0] == "apis" and len(parts) == 3 and parts[1] in groups() and parts[2] == "v1":
        return resource_list(f"{parts[1]}/v1")
    return None


def health(path: str) -> str | None:
    """The answer of ``/healthz``, ``/livez``, ``/readyz`` and their parts; None for another path."""
    where, _, part = path.strip("/").partition("/")
    return "ok" if where in ("healthz", "livez", "readyz") and part in ("", "ping", "log", "etcd") else None


def groups() -> list[str]:
    """The groups that have names."""
    return sorted(({group_of(resource) for resource in ALL} | {review.group for review in REVIEWS}) - {""})


def is_below_a_group(path: str) -> bool:
    """Whether a path is below an API group of ours, whatever is there."""
    parts = path.strip("/").split("/")
    return parts[0] == "api" or (parts[0] == "apis" and len(parts) > 1 and parts[1] in groups())


def _group(name: str) -> Object:
    version = {"groupVersion": f"{name}/v1", "version": "v1"}
    return {"name": name, "versions": [version], "preferredVersion": version}


def resource_list(api_version: str) -> Object:
    """The kinds of a group and version."""
    entries: list[Object] = []
    for resource in ALL:
        if resource.api_version == api_version:
            entries.append(_entry(resource))
            entries += [_subresource(resource, word) for word in sorted(subresources(resource) - PROCESS_SUBRESOURCES)]
    for review in REVIEWS:
        if api_version == f"{review.group}/v1":
            entries.append(_review(review))
    if api_version == "v1":
        entries.append({**_entry(BINDINGS), "verbs": ["create"]})
    entries.sort(key=lambda entry: str(entry["name"]))
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version, "resources": entries}


def _review(review: Review) -> Object:
    names = {"name": review.plural, "singularName": review.kind.lower(), "namespaced": False}
    return {**names, "kind": review.kind, "verbs": ["create"]}


def _entry(resource: Resource) -> Object:
    entry: Object = {
        "name": resource.plural,
        "singularName": resource.kind.lower(),
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": [verb for verb in _VERBS if resource != NAMESPACES or verb != "deletecollection"],
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource == PODS or resource.plural in (*SCALED, "daemonsets", "jobs"):
        entry["categories"] = ["all"]
    if resource.api_version == MUTATING_ADMISSION_POLICIES.api_version:
        entry["categories"] = ["api-extensions"]
    return entry


def _subresource(resource: Resource, word: str) -> Object:
    found = _SUBRESOURCE_KINDS.get(word, {"kind": resource.kind, "verbs": ["get", "patch", "update"]})
    return {"name": f"{resource.plural}/{word}", "singularName": "", "namespaced": resource.namespaced, **found}
