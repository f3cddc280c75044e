"""Rules for single fields: names, labels, what is required, which fields and types a kind has. Pure.

The real server decodes a body, or the result of a patch, into the fields that it knows. A value of a wrong type ends that (400);
fields that it does not know are dropped, after a warning or a refusal, whichever ``fieldValidation`` of the write asks for.

``schemas.json`` has, for each message of the API, its fields and their types: a word (``string``, ``integer:int32``, two words
with ``|``), or the name of a message, with ``[]`` (list) or ``{}`` (map from text) before it. A message that is written as one
value (a quantity, a time) is a word, too. Taken from what Kubernetes 1.36 publishes.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from clusters.api.resources import Resource
from clusters.embedded.apiserver.api_objects import Object
from clusters.embedded.apiserver.refusals import FieldError, bad_request

_LABEL_FORM: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_LABEL: Final = re.compile(_LABEL_FORM)
_DNS_SUBDOMAIN: Final = re.compile(rf"{_LABEL_FORM}(\.{_LABEL_FORM})*")
_WORD: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")


_ENDS: Final = "and must start and end with an alphanumeric character"
_LABEL_TEXT: Final = f"must consist of lower case alphanumeric characters or '-', {_ENDS}"
_SUBDOMAIN_TEXT: Final = f"must consist of lower case alphanumeric characters, '-' or '.', {_ENDS}"
_WORD_TEXT: Final = f"must consist of alphanumeric characters, '-', '_' or '.', {_ENDS}"


def required(field: str, text: str = "") -> FieldError:
    """A field that must be there and is not."""
    return FieldError(field, "FieldValueRequired", f"Required value: {text}" if text else "Required value")


def wrong(field: str, value: Any, text: str) -> FieldError:
    """A field whose value is not allowed."""
    return FieldError(field, "FieldValueInvalid", f"Invalid value: {json.dumps(value, ensure_ascii=False)}: {text}")


def not_allowed(field: str, text: str) -> FieldError:
    """A field that must not be there, or must not change."""
    return FieldError(field, "FieldValueForbidden", f"Forbidden: {text}")


def unsupported(field: str, value: str, known: tuple[str, ...]) -> FieldError:
    """A word that is none of the known ones."""
    listed = ", ".join(f'"{each}"' for each in known)
    return FieldError(field, "FieldValueNotSupported", f'Unsupported value: "{value}": supported values: {listed}')


def label_texts(value: str) -> list[str]:
    """The faults of an RFC 1123 label of at most 63 characters."""
    return _texts(value, 63, _DNS_LABEL, _LABEL_TEXT)


def subdomain_texts(value: str) -> list[str]:
    """The faults of an RFC 1123 subdomain of at most 253 characters."""
    return _texts(value, 253, _DNS_SUBDOMAIN, _SUBDOMAIN_TEXT)


def segment_texts(value: str) -> list[str]:
    """The faults of a word that stands between two slashes of a URL."""
    texts = [f"may not be '{value}'"] if value in (".", "..") else []
    return texts + [f"may not contain '{sign}'" for sign in ("/", "%") if sign in value]


def dns_label(field: str, value: str) -> list[FieldError]:
    """RFC 1123 label of at most 63 characters."""
    return [wrong(field, value, text) for text in label_texts(value)]


def dns_subdomain(field: str, value: str) -> list[FieldError]:
    """RFC 1123 subdomain of at most 253 characters."""
    return [wrong(field, value, text) for text in subdomain_texts(value)]


def qualified_name(key: str) -> list[str]:
    """The faults of ``name`` or ``example.com/name``, the form of keys of labels, annotations and resources."""
    *prefixes, name = key.split("/")
    if len(prefixes) > 1:
        return ["must have one '/' at most"]
    texts = [f"prefix part {each}" for prefix in prefixes for each in subdomain_texts(prefix)]
    return texts + [f"name part {each}" for each in _texts(name, 63, _WORD, _WORD_TEXT)]


def labels(field: str, values: dict[str, str]) -> list[FieldError]:
    """Keys and values of labels, of a node selector, of ``matchLabels``."""
    errors = []
    for key, value in values.items():
        errors += [wrong(field, key, text) for text in qualified_name(key)]
        errors += [wrong(field, value, text) for text in label_value_texts(value)]
    return errors


def label_value_texts(value: str) -> list[str]:
    """The faults of a label's value; an empty one is right."""
    return _texts(value, 63, _WORD, _WORD_TEXT) if value else []


def _texts(value: str, most: int, form: re.Pattern[str], text: str) -> list[str]:
    texts = [f"must be no more than {most} bytes"] if len(value.encode()) > most else []
    return texts if form.fullmatch(value) else [*texts, text]


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
