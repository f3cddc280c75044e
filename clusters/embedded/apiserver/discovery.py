"""The server's answers about itself: its version, its groups, its kinds, whether it is well, and OpenAPI. Pure.

OpenAPI v3 is there as far as kubectl needs it: which kinds there are, and which queries and patches their PATCH takes.
There are no schemas: ``kubectl explain`` finds no fields, and ``kubectl apply`` merges by the types that it brings along.
Version 2 of OpenAPI is an empty document: kubectl asks for it (in protobuf) about what version 3 does not have.
"""

from __future__ import annotations

import functools
import hashlib
from typing import Final

import msgspec

from clusters.api.resources import ALL, MUTATING_ADMISSION_POLICIES, NAMESPACES, PODS, Resource
from clusters.embedded.apiserver import patch
from clusters.embedded.apiserver.access_reviews import REVIEWS, Review
from clusters.embedded.apiserver.api_objects import Object
from clusters.embedded.apiserver.api_routes import PROCESS_SUBRESOURCES, SCALED, subresources
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


VERSION_2: Final = "/openapi/v2"
PREFIX: Final = "/openapi/v3"
_QUERY: Final = ("dryRun", "fieldManager", "fieldValidation", "force", "pretty")
# Without strategic merge patches, for which kubectl would look up how lists are merged.
_PATCHES: Final = (patch.JSON_PATCH, patch.MERGE_PATCH)


def openapi(path: str) -> bytes | None:
    """The document at a path; None if there is none."""
    if path == VERSION_2:
        return b""
    if path == PREFIX:
        return _index()
    where = path.removeprefix(f"{PREFIX}/")
    return _encoded(where) if path.startswith(f"{PREFIX}/") and where in _documents() else None


@functools.cache
def _documents() -> dict[str, str]:
    """Where a group's document is, by apiVersion: ``api/v1``, ``apis/apps/v1``."""
    return {resource.root.strip("/"): resource.api_version for resource in ALL}


@functools.cache
def _index() -> bytes:
    # The hash changes with the document, so that clients may keep what they have.
    paths = {
        where: {"serverRelativeURL": f"{PREFIX}/{where}?hash={hashlib.sha256(_encoded(where)).hexdigest().upper()}"}
        for where in sorted(_documents())
    }
    return msgspec.json.encode({"paths": paths})


@functools.cache
def _encoded(where: str) -> bytes:
    resources = [resource for resource in ALL if resource.api_version == _documents()[where]]
    return msgspec.json.encode(
        {
            "openapi": "3.0.0",
            "info": {"title": "Kubernetes", "version": "1.36"},
            "paths": {_path(resource): {"patch": _patch(resource)} for resource in resources},
        }
    )


def _path(resource: Resource) -> str:
    return f"{resource.root}{'/namespaces/{namespace}' if resource.namespaced else ''}/{resource.plural}/{{name}}"


def _patch(resource: Resource) -> Object:
    return {
        "parameters": [{"name": name, "in": "query", "schema": {"type": "string"}} for name in _QUERY],
        "requestBody": {"content": {media: {"schema": {"type": "object"}} for media in _PATCHES}, "required": True},
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": {
            "group": group_of(resource),
            "version": resource.api_version.rpartition("/")[2],
            "kind": resource.kind,
        },
    }
