"""Fields that a kind does not have, and values of another type: what ``fieldValidation`` of a write asks for. Pure.

The real server decodes a body into the fields that it knows. A value of a wrong type ends that (400); fields that it does
not know are dropped, after a warning or a refusal, whichever the client wants.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Final

import msgspec

from clusters.embedded.apiserver import patch
from clusters.embedded.apiserver.api_routes import Route
from clusters.embedded.apiserver.refusals import RefusalError, bad_request
from clusters.embedded.apiserver.requests import JSON, Request
from clusters.embedded.apiserver.schemas import LIST, MAP, message_name, message_of, messages, scalars

STRICT: Final = "Strict"
WARN: Final = "Warn"
IGNORE: Final = "Ignore"
_SHORT: Final = "integer:int32"
_LARGEST_SHORT: Final = 2**31 - 1
_STRICTLY: Final = "strict decoding error: "
_MODES: Final = ("", IGNORE, STRICT, WARN)
_OPTIONS: Final = {"POST": "CreateOptions", "PUT": "UpdateOptions", "PATCH": "PatchOptions"}
_OF_SUBRESOURCES: Final = {
    "binding": ("v1", "Binding"),
    "eviction": ("policy/v1", "Eviction"),
    "scale": ("autoscaling/v1", "Scale"),
}
_GO_TYPES: Final = {
    "string": "string",
    "string:byte": "[]uint8",
    "boolean": "bool",
    "integer": "int",
    "integer:int32": "int32",
    "integer:int64": "int64",
    "number:double": "float64",
}


class _MismatchError(Exception):
    """A value of a wrong type; the text names its place."""


def check_fields(request: Request, route: Route) -> tuple[Request, list[str]]:
    """The request without the fields that there are not, and the warnings about them.

    Raises RefusalError (400, 422) for what the client or the API does not allow.
    """
    if request.method not in _OPTIONS:
        return request, []
    mode = request.params.get("fieldValidation", "")
    if mode not in _MODES:
        listed = ", ".join(f'"{each}"' for each in _MODES)
        why = f'fieldValidation: Unsupported value: "{mode}": supported values: {listed}'
        options = _OPTIONS[request.method]
        raise RefusalError(422, "Invalid", f'{options}.meta.k8s.io "" is invalid: {why}')
    kind, message = _message(route)
    if message not in messages():
        return request, []
    is_patch = request.method == "PATCH"
    body = _patch_of(request) if is_patch else request.object(kind[1])
    walk = _Walk(is_patch=is_patch)
    start = f'{kind[1]} in version "{kind[0].rpartition("/")[2]}" cannot be handled as a {kind[1]}: '
    try:
        walk.message(body, message, "", "")
    except _MismatchError as mismatch:
        raise bad_request(start + str(mismatch)) from None
    unknown = [f'unknown field "{path}"' for path in walk.unknown]
    if not unknown:
        return request, []
    if mode == STRICT:
        raise _refused_patch(body, unknown) if is_patch else bad_request(start + _STRICTLY + ", ".join(unknown))
    walk.drop()
    media = request.content_type if is_patch else JSON
    known = replace(request, body=msgspec.json.encode(body), content_type=media)
    return known, [] if mode == IGNORE else unknown


def _message(route: Route) -> tuple[tuple[str, str], str]:
    found = _OF_SUBRESOURCES.get(route.subresource or "")
    if found is not None:
        return found, message_name(*found)
    if route.subresource not in (None, "status", "finalize"):
        return ("", ""), ""
    return (route.resource.api_version, route.resource.kind), message_of(route.resource)


def _patch_of(request: Request) -> Any:
    """A merge patch, which itself shows the fields of the result; None for another."""
    if request.content_type not in (patch.MERGE_PATCH, patch.STRATEGIC_MERGE_PATCH):
        return None
    try:
        return msgspec.json.decode(request.body)
    except (ValueError, RecursionError):
        # The code that applies the patch reports what is wrong with it.
        return None


def _refused_patch(body: Any, unknown: list[str]) -> RefusalError:
    shown = json.dumps(go_text(body), ensure_ascii=False)
    message = f"Invalid value: {shown}: {_STRICTLY}{', '.join(unknown)}"
    causes = [{"reason": "FieldValueInvalid", "message": message, "field": "patch"}]
    return RefusalError(422, "Invalid", f' "" is invalid: patch: {message}', {"causes": causes})


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

    def message(self, value: Any, message: str, path: str, names: str) -> None:
        """An object with the fields of a message; ``names`` is the path without places in lists."""
        if not isinstance(value, dict):
            return
        fields = messages()[message]
        for key, each in value.items():
            where = f"{path}.{key}" if path else key
            field = fields.get(key)
            if field is not None:
                self._value(each, field.type, where, f"{names}.{key}" if names else key, message)
            elif not self._may_be(key, each, is_root=not path):
                self.unknown.append(where)
                self._held.append((value, key))

    def _may_be(self, key: str, value: Any, *, is_root: bool) -> bool:
        if is_root and key in ("kind", "apiVersion"):
            return True
        return self._is_patch and (value is None or key.startswith("$"))

    def _value(self, value: Any, type_: str, path: str, names: str, holder: str) -> None:
        if value is None or type_ in scalars():
            return
        if type_.startswith(LIST):
            self._expect(value, list, type_, names, holder)
            for at, each in enumerate(value if isinstance(value, list) else ()):
                self._value(each, type_.removeprefix(LIST), f"{path}[{at}]", names, holder)
        elif type_.startswith(MAP):
            self._expect(value, dict, type_, names, holder)
            for key, each in (value if isinstance(value, dict) else {}).items():
                self._value(each, type_.removeprefix(MAP), f"{path}.{key}", names, holder)
        elif type_ in messages():
            self._expect(value, dict, type_, names, holder)
            self.message(value, type_, path, names)
        else:
            self._expect(value, _PYTHON_TYPES.get(type_, object), type_, names, holder)

    def _expect(self, value: Any, wanted: type, type_: str, names: str, holder: str) -> None:
        if self._is_patch or _fits(value, wanted, type_):
            return
        struct = holder.rpartition(".")[2]
        text = f"json: cannot unmarshal {_word(value)} into Go struct field {struct}.{names} of type {_go_type(type_)}"
        raise _MismatchError(text)


def _fits(value: Any, wanted: type, type_: str) -> bool:
    if wanted in (int, float) and isinstance(value, bool):
        return False
    if type_ == _SHORT and isinstance(value, int):
        return abs(value) <= _LARGEST_SHORT
    return isinstance(value, wanted) or (wanted is float and isinstance(value, int))


_PYTHON_TYPES: Final[dict[str, type]] = {
    "string": str,
    "string:byte": str,
    "boolean": bool,
    "integer": int,
    "integer:int32": int,
    "integer:int64": int,
    "number:double": float,
}


def _go_type(type_: str) -> str:
    if type_.startswith(LIST):
        return "[]" + _go_type(type_.removeprefix(LIST))
    if type_.startswith(MAP):
        return "map[string]" + _go_type(type_.removeprefix(MAP))
    return _GO_TYPES.get(type_) or ".".join(type_.split(".")[-2:])


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, float) or (isinstance(value, int) and abs(value) > _LARGEST_SHORT):
        return f"number {value}"
    return {int: "number", str: "string", list: "array", dict: "object"}.get(type(value), "value")


def go_text(value: Any) -> str:
    """A decoded JSON value as the server's messages show it."""
    if isinstance(value, dict):
        return f"map[{' '.join(f'{key}:{go_text(value[key])}' for key in sorted(value))}]"
    if isinstance(value, list):
        return f"[{' '.join(map(go_text, value))}]"
    if value is None:
        return "<nil>"
    return str(value).lower() if isinstance(value, bool) else str(value)
