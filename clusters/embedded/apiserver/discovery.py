"""The server's answers about itself: its version, its groups, its kinds, whether it is well, and OpenAPI. Pure.

OpenAPI v3 is there as far as kubectl needs it: which kinds there are, and which queries and patches their PATCH takes.
There are no schemas: ``kubectl explain`` finds no fields, and ``kubectl apply`` merges by the types that it brings along.
Version 2 of OpenAPI is an empty document: kubectl asks for it (in protobuf) about what version 3 does not have.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from typing import Any, Final

import msgspec

from clusters.api.resources import ALL, MUTATING_ADMISSION_POLICIES, NAMESPACES, PODS, Resource
from clusters.embedded.apiserver import patch
from clusters.embedded.apiserver.api_objects import Object, without_nulls
from clusters.embedded.apiserver.api_routes import SCALED, subresources
from clusters.embedded.apiserver.authorization import Attributes, Authorizer, User
from clusters.embedded.apiserver.refusals import bad_request, group_of, method_not_allowed
from clusters.embedded.apiserver.requests import Answer, Request, json_answer

_FIELDS: Final = ("verb", "group", "resource", "subresource", "namespace", "name")
# The kind of each question, by its group.
REVIEWS: Final = {"authorization.k8s.io": "SelfSubjectAccessReview", "authentication.k8s.io": "SelfSubjectReview"}
_AT: Final = {f"/apis/{group}/v1/{kind.lower()}s": (group, kind) for group, kind in REVIEWS.items()}


def review(request: Request, authorizer: Authorizer, now: Callable[[], str]) -> Answer | None:
    """The answer to a request for a review, None for any other request. Raises RefusalError.

    ``now`` is the time of day as the API writes it.
    """
    if request.path not in _AT:
        return None
    if request.method != "POST":
        raise method_not_allowed()
    group, kind = _AT[request.path]
    spec = without_nulls(request.object()).get("spec", {})
    head: Object = {"kind": kind, "apiVersion": f"{group}/v1"}
    if kind == "SelfSubjectReview":
        answer = {"metadata": {"creationTimestamp": now()}, "status": {"userInfo": user_info(request.user)}}
    else:
        allowed = authorizer.allows(request.user, attributes_in(spec))
        answer = {"metadata": {}, "spec": spec, "status": {"allowed": allowed}}
    return json_answer(head | answer, 201)


def attributes_in(spec: Any) -> Attributes:
    """The request that a review asks about. Raises RefusalError (400)."""
    for key, fields in (("resourceAttributes", _FIELDS), ("nonResourceAttributes", ("verb", "path"))):
        if isinstance(spec, dict) and isinstance(asked := spec.get(key), dict):
            return Attributes(**{field: str(asked.get(field, "")) for field in fields})
    raise bad_request("spec: either resourceAttributes or nonResourceAttributes must be specified")


def user_info(user: User) -> Object:
    """A user as the API writes it."""
    extra = {key: list(values) for key, values in user.extra.items()}
    info: Object = {"username": user.name, "uid": user.uid, "groups": list(user.groups), "extra": extra}
    return {key: value for key, value in info.items() if value}


_TEXT: Final = "text/plain; charset=utf-8"
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
# kubectl drain and scale look for these.
_SUBRESOURCE_KINDS: Final = {
    "binding": {"kind": "Binding", "verbs": ["create"]},
    "eviction": {"kind": "Eviction", "group": "policy", "version": "v1", "verbs": ["create"]},
    "token": {"kind": "TokenRequest", "group": "authentication.k8s.io", "version": "v1", "verbs": ["create"]},
    "scale": {"kind": "Scale", "group": "autoscaling", "version": "v1", "verbs": ["get", "patch", "update"]},
}
_SHOWN: Final = frozenset({"status", *_SUBRESOURCE_KINDS})
_OPENAPI: Final = "/openapi/v3"
_QUERY: Final = ("dryRun", "fieldManager", "fieldValidation", "force", "pretty")
# Without strategic merge patches, for which kubectl would look up how lists are merged.
_PATCHES: Final = (patch.JSON_PATCH, patch.MERGE_PATCH)


def about(path: str) -> Answer | None:
    """The answer to a question about the server; None for another path."""
    first, *rest = path.strip("/").split("/")
    if first in ("healthz", "livez", "readyz") and rest in ([], ["ping"], ["log"], ["etcd"]):
        return Answer(b"ok", content_type=_TEXT)
    if first == "openapi":
        return _openapi(path)
    found = _document(path.strip("/").split("/"))
    return None if found is None else json_answer(found)


def nothing(path: str) -> Answer | None:
    """404 as plain text for a path that is below no API group of ours; None for one that is."""
    parts = path.strip("/").split("/")
    is_known = parts[0] == "api" or (parts[0] == "apis" and len(parts) > 1 and parts[1] in _groups())
    return None if is_known else Answer(b"404 page not found\n", 404, _TEXT)


def _document(parts: list[str]) -> Object | None:
    match parts:
        case ["version"]:
            return dict(VERSION)
        case ["api"]:
            return {"kind": "APIVersions", "versions": ["v1"]}
        case ["apis"]:
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(name) for name in _groups()]}
        case ["api", "v1"]:
            return _resource_list("v1")
        case ["apis", group] if group in _groups():
            return {"kind": "APIGroup", "apiVersion": "v1", **_group(group)}
        case ["apis", group, "v1"] if group in _groups():
            return _resource_list(f"{group}/v1")
    return None


@functools.cache
def _groups() -> list[str]:
    """The groups that have names."""
    return sorted(({group_of(resource) for resource in ALL} | {*REVIEWS}) - {""})


def _group(name: str) -> Object:
    version = {"groupVersion": f"{name}/v1", "version": "v1"}
    return {"name": name, "versions": [version], "preferredVersion": version}


def _resource_list(api_version: str) -> Object:
    """The kinds of a group and version."""
    entries: list[Object] = []
    for resource in ALL:
        if resource.api_version == api_version:
            entries.append(_entry(resource))
            entries += [_subresource(resource, word) for word in sorted(subresources(resource) & _SHOWN)]
    if kind := REVIEWS.get(api_version.removesuffix("/v1")):
        names = {"name": f"{kind.lower()}s", "singularName": kind.lower(), "namespaced": False}
        entries.append({**names, "kind": kind, "verbs": ["create"]})
    entries.sort(key=lambda entry: str(entry["name"]))
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version, "resources": entries}


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


def _openapi(path: str) -> Answer | None:
    if path == "/openapi/v2":
        return Answer(b"")
    # Where a group's document is (``api/v1``, ``apis/apps/v1``), and its apiVersion.
    documents = {resource.root.strip("/"): resource.api_version for resource in ALL}
    if path == _OPENAPI:
        # The hash changes with the document, so that clients may keep what they have.
        hashes = {where: hashlib.sha256(_encoded(version)).hexdigest().upper() for where, version in documents.items()}
        urls = {where: {"serverRelativeURL": f"{_OPENAPI}/{where}?hash={word}"} for where, word in hashes.items()}
        return json_answer({"paths": urls})
    version = documents.get(path.removeprefix(f"{_OPENAPI}/"))
    return None if version is None else Answer(_encoded(version))


@functools.cache
def _encoded(api_version: str) -> bytes:
    info = {"title": "Kubernetes", "version": "1.36"}
    paths = {
        f"{each.root}{'/namespaces/{namespace}' if each.namespaced else ''}/{each.plural}/{{name}}": {
            "patch": _patch(each)
        }
        for each in ALL
        if each.api_version == api_version
    }
    return msgspec.json.encode({"openapi": "3.0.0", "info": info, "paths": paths})


def _patch(resource: Resource) -> Object:
    kind = {
        "group": group_of(resource),
        "version": resource.api_version.rpartition("/")[2],
        "kind": resource.kind,
    }
    return {
        "parameters": [{"name": name, "in": "query", "schema": {"type": "string"}} for name in _QUERY],
        "requestBody": {"content": {media: {"schema": {"type": "object"}} for media in _PATCHES}, "required": True},
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": kind,
    }
