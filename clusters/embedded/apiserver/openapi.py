"""The OpenAPI v3 documents: which kinds there are, what a PATCH takes, and their fields, as far as kubectl asks for them.

There are no descriptions: ``kubectl explain`` shows fields and types. Version 2 of OpenAPI is an empty document: kubectl asks
for it (in protobuf) only about kinds that version 3 does not have, and has an error of its own for unknown ones.
"""

from __future__ import annotations

import functools
import hashlib
from typing import Any, Final

import msgspec

from clusters.embedded.apiserver import patch, server_side_apply
from clusters.embedded.apiserver.api_objects import Object
from clusters.embedded.apiserver.refusals import group_of
from clusters.embedded.apiserver.schemas import LIST, MAP, Field, message_of, messages, scalars
from clusters.resources import ALL, Resource

VERSION_2: Final = "/openapi/v2"
PREFIX: Final = "/openapi/v3"
_REFERENCE: Final = "#/components/schemas/"
_QUERY: Final = ("dryRun", "fieldManager", "fieldValidation", "force", "pretty")
_MACHINERY: Final = ("apis.meta.", "api.resource.", "util.intstr.", "runtime.")


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
    names: set[str] = set()
    for resource in resources:
        _collect(message_of(resource), names)
    return msgspec.json.encode(
        {
            "openapi": "3.0.0",
            "info": {"title": "Kubernetes", "version": "1.36"},
            "paths": {_path(resource): _operations(resource) for resource in resources},
            "components": {"schemas": {full_name(name): _schema(name, resources) for name in sorted(names)}},
        }
    )


def full_name(name: str) -> str:
    """The name of a message as the API publishes it: ``io.k8s.api.core.v1.Pod``."""
    return f"io.k8s.{'apimachinery.pkg' if name.startswith(_MACHINERY) else 'api'}.{name}"


def _collect(name: str, found: set[str]) -> None:
    """The messages that a message needs."""
    if name in found or (name not in messages() and name not in scalars()):
        return
    found.add(name)
    for field in messages().get(name, {}).values():
        _collect(field.type.removeprefix(LIST).removeprefix(MAP).removeprefix(LIST), found)


def _path(resource: Resource) -> str:
    return f"{resource.root}{'/namespaces/{namespace}' if resource.namespaced else ''}/{resource.plural}/{{name}}"


def _operations(resource: Resource) -> Object:
    """The facts that kubectl looks up: that a kind exists, the queries that its writes take, the patches that it knows."""
    what = {"group": group_of(resource), "version": resource.api_version.rpartition("/")[2], "kind": resource.kind}
    shown: Object = {"$ref": _REFERENCE + full_name(message_of(resource))}
    answer = {"200": {"description": "OK", "content": {"application/json": {"schema": shown}}}}
    parameters = [{"name": name, "in": "query", "schema": {"type": "string"}} for name in _QUERY]
    about: Object = {"responses": answer, "x-kubernetes-group-version-kind": what}
    bodies = {media: {"schema": {"type": "object"}} for media in (*patch.TYPES, server_side_apply.MEDIA_TYPE)}
    return {
        "get": {**about, "x-kubernetes-action": "get"},
        "put": {**about, "parameters": parameters, "x-kubernetes-action": "put"},
        "patch": {
            **about,
            "parameters": parameters,
            "requestBody": {"content": bodies, "required": True},
            "x-kubernetes-action": "patch",
        },
        "delete": {**about, "x-kubernetes-action": "delete"},
    }


def _schema(name: str, resources: list[Resource]) -> Object:
    if name in scalars():
        return _scalar(scalars()[name])
    fields = messages()[name]
    schema: Object = {"type": "object", "properties": {key: _property(field) for key, field in fields.items()}}
    if required := [key for key, field in fields.items() if field.is_required]:
        schema["required"] = required
    if kinds := [resource for resource in resources if message_of(resource) == name]:
        version = kinds[0].api_version.rpartition("/")[2]
        schema["x-kubernetes-group-version-kind"] = [
            {"group": group_of(kinds[0]), "version": version, "kind": kinds[0].kind}
        ]
    return schema


def _property(field: Field) -> Object:
    found = _type(field.type)
    if field.strategy:
        found["x-kubernetes-patch-strategy"] = field.strategy
    if field.merge_key:
        found["x-kubernetes-patch-merge-key"] = field.merge_key
    return found


def _type(text: str) -> dict[str, Any]:
    if text.startswith(LIST):
        return {"type": "array", "items": _type(text.removeprefix(LIST))}
    if text.startswith(MAP):
        return {"type": "object", "additionalProperties": _type(text.removeprefix(MAP))}
    if text in messages() or text in scalars():
        return {"allOf": [{"$ref": _REFERENCE + full_name(text)}]}
    return _scalar(text)


def _scalar(text: str) -> dict[str, Any]:
    if "|" in text:
        return {"oneOf": [{"type": one} for one in text.split("|")]}
    type_, _, format_ = text.partition(":")
    return {"type": type_, **({"format": format_} if format_ else {})}
