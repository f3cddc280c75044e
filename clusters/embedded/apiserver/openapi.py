"""OpenAPI v3, as far as kubectl needs it: which kinds there are, and which queries and patches their PATCH takes.

There are no schemas: ``kubectl explain`` finds no fields, and ``kubectl apply`` merges by the types that it brings along.
Version 2 of OpenAPI is an empty document: kubectl asks for it (in protobuf) about what version 3 does not have.
"""

from __future__ import annotations

import functools
import hashlib
from typing import Final

import msgspec

from clusters.api.resources import ALL, Resource
from clusters.embedded.apiserver import patch
from clusters.embedded.apiserver.api_objects import Object
from clusters.embedded.apiserver.refusals import group_of

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
    return _encoded(where) if path.startswith(f"{PREFIX}/") and where in _groups() else None


@functools.cache
def _groups() -> dict[str, str]:
    """Where a group's document is, by apiVersion: ``api/v1``, ``apis/apps/v1``."""
    return {resource.root.strip("/"): resource.api_version for resource in ALL}


@functools.cache
def _index() -> bytes:
    # The hash changes with the document, so that clients may keep what they have.
    paths = {
        where: {"serverRelativeURL": f"{PREFIX}/{where}?hash={hashlib.sha256(_encoded(where)).hexdigest().upper()}"}
        for where in sorted(_groups())
    }
    return msgspec.json.encode({"paths": paths})


@functools.cache
def _encoded(where: str) -> bytes:
    resources = [resource for resource in ALL if resource.api_version == _groups()[where]]
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
