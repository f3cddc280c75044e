"""Fields that a kind does not have, and values of another type. Pure.

The real server decodes a body, or the result of a patch, into the fields that it knows. A value of a wrong type ends that (400);
fields that it does not know are dropped, after a warning or a refusal, whichever ``fieldValidation`` of the write asks for.

``schemas.json`` has, for each message of the API, its fields and their types: a word (``string``, ``integer:int32``, two words
with ``|``), or the name of a message, with ``[]`` (list) or ``{}`` (map from text) before it. A message that is written as one
value (a quantity, a time) is a word, too. Taken from what Kubernetes 1.36 publishes.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from clusters.api.resources import Resource
from clusters.embedded.apiserver.api_objects import Object
from clusters.embedded.apiserver.refusals import bad_request

STRICT: Final = "Strict"
IGNORE: Final = "Ignore"
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
    content = (Path(__file__).parent / "schemas.json").read_bytes()
    return msgspec.json.decode(content, type=dict[str, dict[str, str] | str])


def drop_unknown(resource: Resource, item: Object, mode: str) -> list[str]:
    """Take fields that the kind does not have out of an object; the warnings about them. Raises RefusalError (400)."""
    group, _, version = resource.api_version.rpartition("/")
    start = f'{resource.kind} in version "{version}" cannot be handled as a {resource.kind}: '
    paths: list[str] = []
    try:
        _walk(item, f"{group.partition('.')[0] or 'core'}.{version}.{resource.kind}", "", paths)
    except _MismatchError as mismatch:
        raise bad_request(f"{start}{mismatch}") from None
    unknown = [f'unknown field "{path}"' for path in paths]
    if mode == STRICT and unknown:
        raise bad_request(f"{start}strict decoding error: {', '.join(unknown)}")
    return [] if mode == IGNORE else unknown


def _walk(item: Object, message: str, path: str, unknown: list[str]) -> None:
    """Go through an object beside the fields of its message, in the order of the document."""
    fields = messages().get(message)
    if not isinstance(fields, Mapping):
        return
    for key, value in list(item.items()):
        where = f"{path}.{key}" if path else key
        if key in fields:
            _check(value, fields[key], where, unknown)
        elif path or key not in ("kind", "apiVersion"):
            unknown.append(where)
            del item[key]


def _check(value: Any, type_: str, path: str, unknown: list[str]) -> None:
    content = type_[2:]
    if type_.startswith("[]"):
        _expect("a list", path, value, fits=isinstance(value, list))
        for at, each in enumerate(value):
            _check(each, content, f"{path}[{at}]", unknown)
    elif type_.startswith("{}"):
        _expect("a map", path, value, fits=isinstance(value, dict))
        for key, each in value.items():
            _check(each, content, f"{path}.{key}", unknown)
    elif isinstance(found := messages().get(type_, type_), str):
        _expect(found, path, value, fits=value is None or _is_word(value, found))
    else:
        _expect("an object", path, value, fits=isinstance(value, dict))
        _walk(value, type_, path, unknown)


def _expect(wanted: str, path: str, value: Any, *, fits: bool) -> None:
    if not fits:
        raise _MismatchError(f"{path}: expected {wanted}, found {msgspec.json.encode(value)[:40].decode()}")


def _is_word(value: Any, words: str) -> bool:
    """Whether a value is of one of the types; a truth value is no number."""
    if words == _SHORT and isinstance(value, int) and abs(value) > _LARGEST_SHORT:
        return False
    types = [each for word in words.split("|") for each in _WORDS.get(word.partition(":")[0], (object,))]
    return isinstance(value, tuple(types)) and (not isinstance(value, bool) or bool in types)
