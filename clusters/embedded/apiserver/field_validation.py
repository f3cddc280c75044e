"""Fields that a kind does not have, and values of another type: what ``fieldValidation`` of a write asks for. Pure.

The real server decodes a body into the fields that it knows. A value of a wrong type ends that (400); fields that it does
not know are dropped, after a warning or a refusal, whichever the client wants.

``schemas.json`` has, for each message of the API, its fields and their types: a word (``string``, ``integer:int32``, two words
with ``|``), or the name of a message, with ``[]`` (list) or ``{}`` (map from text) before it. A message that is written as one
value (a quantity, a time) is a word, too. Taken from what Kubernetes 1.36 publishes.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import msgspec

from clusters.api.resources import Resource
from clusters.embedded.apiserver import patch
from clusters.embedded.apiserver.api_objects import Object
from clusters.embedded.apiserver.api_routes import Route
from clusters.embedded.apiserver.field_rules import unsupported
from clusters.embedded.apiserver.refusals import bad_request, options_invalid, patch_invalid
from clusters.embedded.apiserver.requests import JSON, Request

STRICT: Final = "Strict"
IGNORE: Final = "Ignore"
_MODES: Final = ("", IGNORE, STRICT, "Warn")
_OPTIONS: Final = {"POST": "CreateOptions", "PUT": "UpdateOptions", "PATCH": "PatchOptions"}
_OF_SUBRESOURCES: Final = {
    "binding": ("v1", "Binding"),
    "eviction": ("policy/v1", "Eviction"),
    "scale": ("autoscaling/v1", "Scale"),
}
_FILE: Final = Path(__file__).parent / "schemas.json"
_LIST: Final = "[]"
_MAP: Final = "{}"
_WORDS: Final[dict[str, tuple[type, ...]]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "object": (dict,),
}
_SHORT: Final = "integer:int32"
_LARGEST_SHORT: Final = 2**31 - 1


class _MismatchError(Exception):
    """A value of a wrong type; the text names its place."""


@functools.cache
def messages() -> Mapping[str, Mapping[str, str] | str]:
    """The fields of each message by its name (``core.v1.Pod``), or the word that the message is."""
    return msgspec.json.decode(_FILE.read_bytes(), type=dict[str, dict[str, str] | str])


def message_name(api_version: str, kind: str) -> str:
    """The name of a kind's message; there need not be one."""
    group, _, version = api_version.rpartition("/")
    return f"{group.partition('.')[0] or 'core'}.{version}.{kind}"


def check_fields(request: Request, route: Route) -> tuple[Request, list[str]]:
    """The request without the fields that there are not, and the warnings about them.

    Raises RefusalError (400, 422) for what the client or the API does not allow.
    """
    if request.method not in _OPTIONS:
        return request, []
    mode = request.params.get("fieldValidation", "")
    if mode not in _MODES:
        raise options_invalid(_OPTIONS[request.method], [unsupported("fieldValidation", mode, _MODES)])
    api_version, kind = _kind(route)
    message = message_name(api_version, kind)
    if message not in messages():
        return request, []
    is_patch = request.method == "PATCH"
    body = _patch_of(request) if is_patch else request.object(kind)
    walk = _Walk(is_patch=is_patch)
    try:
        walk.message(body, message, "")
    except _MismatchError as mismatch:
        raise bad_request(f"{_beginning(api_version, kind)}{mismatch}") from None
    if not walk.unknown:
        return request, []
    unknown = [f'unknown field "{path}"' for path in walk.unknown]
    if mode == STRICT:
        text = f"strict decoding error: {', '.join(unknown)}"
        raise patch_invalid(text) if is_patch else bad_request(_beginning(api_version, kind) + text)
    walk.drop()
    media = request.content_type if is_patch else JSON
    known = replace(request, body=msgspec.json.encode(body), content_type=media)
    return known, [] if mode == IGNORE else unknown


def check_types(resource: Resource, item: Object) -> None:
    """Refuse (400) an object in which a field has a wrong type, as the result of a patch may have."""
    try:
        _Walk(is_patch=False).message(item, message_name(resource.api_version, resource.kind), "")
    except _MismatchError as mismatch:
        raise bad_request(f"{_beginning(resource.api_version, resource.kind)}{mismatch}") from None


def _beginning(api_version: str, kind: str) -> str:
    return f'{kind} in version "{api_version.rpartition("/")[2]}" cannot be handled as a {kind}: '


def _kind(route: Route) -> tuple[str, str]:
    if route.subresource in _OF_SUBRESOURCES:
        return _OF_SUBRESOURCES[route.subresource]
    return (route.resource.api_version, route.resource.kind if route.subresource != "token" else "TokenRequest")


def _patch_of(request: Request) -> Any:
    """A merge patch, which itself shows the fields of the result; None for another."""
    if request.content_type not in (patch.MERGE_PATCH, patch.STRATEGIC_MERGE_PATCH):
        return None
    try:
        return msgspec.json.decode(request.body)
    except (ValueError, RecursionError):
        # The code that applies the patch reports what is wrong with it.
        return None


class _Walk:
    """Goes through a value beside its schema, in the order of the document. A patch may hold nulls and directives."""

    def __init__(self, *, is_patch: bool) -> None:
        self.unknown: list[str] = []
        self._held: list[tuple[dict[str, Any], str]] = []
        self._is_patch = is_patch

    def drop(self) -> None:
        """Take the unknown fields out of the document."""
        for holder, key in self._held:
            del holder[key]

    def message(self, value: Any, message: str, path: str) -> None:
        """An object with the fields of a message."""
        fields = messages().get(message)
        if not isinstance(value, dict) or not isinstance(fields, dict):
            return
        for key, each in value.items():
            where = f"{path}.{key}" if path else key
            if key in fields:
                self._value(each, fields[key], where)
            elif not self._may_be(key, each, is_root=not path):
                self.unknown.append(where)
                self._held.append((value, key))

    def _may_be(self, key: str, value: Any, *, is_root: bool) -> bool:
        if is_root and key in ("kind", "apiVersion"):
            return True
        return self._is_patch and (value is None or key.startswith("$"))

    def _value(self, value: Any, type_: str, path: str) -> None:
        if value is None:
            return
        content = type_[2:]
        if type_.startswith(_LIST):
            self._expect(value, "a list", path, fits=isinstance(value, list))
            for at, each in enumerate(value if isinstance(value, list) else ()):
                self._value(each, content, f"{path}[{at}]")
        elif type_.startswith(_MAP):
            self._expect(value, "a map", path, fits=isinstance(value, dict))
            for key, each in (value if isinstance(value, dict) else {}).items():
                self._value(each, content, f"{path}.{key}")
        elif isinstance(found := messages().get(type_, type_), str):
            self._expect(value, found, path, fits=_is_word(value, found))
        else:
            self._expect(value, "an object", path, fits=isinstance(value, dict))
            self.message(value, type_, path)

    def _expect(self, value: Any, wanted: str, path: str, *, fits: bool) -> None:
        if not fits and not self._is_patch:
            raise _MismatchError(f"{path}: expected {wanted}, found {msgspec.json.encode(value)[:40].decode()}")


def _is_word(value: Any, words: str) -> bool:
    """Whether a value is of one of the types; a truth value is no number."""
    if words == _SHORT and isinstance(value, int) and abs(value) > _LARGEST_SHORT:
        return False
    types = [each for word in words.split("|") for each in _WORDS.get(word.partition(":")[0], (object,))]
    return isinstance(value, tuple(types)) and (not isinstance(value, bool) or bool in types)
