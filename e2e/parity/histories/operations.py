"""A history as data: requests whose versions, uids and tokens are named by the operation that answered them. Pure.

Two servers number their writes differently, so a history has ``${version:7}`` in the place of the
resourceVersion that operation 7 answered. ``${uid:7}`` and ``${continue:7}`` are its uid and its token, and ``${ns}`` is the
namespace of the run. An object with the one key ``${object:7}`` is the object that operation 7 answered, with a merge
patch (its value) applied, as a client does that reads, changes and writes back.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import msgspec

JSON: Final = "application/json"
JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"

WATCH: Final = "WATCH"
# Objects that end the watches of a history carry this label.
END: Final = "end-of-history"
# A version that no server reaches.
FUTURE: Final = "999999999999"

_REFERENCE: Final = re.compile(r"\$\{(ns|version|uid|continue)(?::(\d+))?\}")
_OBJECT: Final = re.compile(r"\$\{object:(\d+)\}")

# The answer of an operation by its number; None: it was not run, or answered nothing.
Answers = Callable[[int], Any]


class Until(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a watch is ended: an object that its selectors let through, and what its status is patched to."""

    path: str
    body: dict[str, Any]
    status: dict[str, Any] | None = None


class Operation(msgspec.Struct, frozen=True, omit_defaults=True):
    """One request; ``until`` is there for watches only (method WATCH)."""

    id: int
    method: str
    path: str
    params: dict[str, str] = {}
    content_type: str = JSON
    body: Any = None
    until: Until | None = None


History = list[Operation]


class UnresolvedError(Exception):
    """A reference to something that was never answered: the operation cannot be sent."""


def encode(history: History) -> str:
    """One operation a line, so that a history can be read and cut by hand."""
    lines = ",\n  ".join(msgspec.json.encode(each).decode() for each in history)
    return f"[\n  {lines}\n]\n"


def decode(text: str | bytes) -> History:
    """A history that was written down. Raises msgspec.ValidationError."""
    return msgspec.json.decode(text, type=History)


def resolve(operation: Operation, namespace: str, answers: Answers) -> Operation:
    """The operation as it is sent. Raises UnresolvedError."""
    return msgspec.structs.replace(
        operation,
        path=_text(operation.path, namespace, answers),
        params={key: _text(value, namespace, answers) for key, value in operation.params.items()},
        body=_value(operation.body, namespace, answers),
    )


def resolve_until(until: Until, namespace: str) -> Until:
    """The end of a watch with its names filled in."""
    return Until(
        _text(until.path, namespace, _none),
        _value(until.body, namespace, _none),
        _value(until.status, namespace, _none),
    )


def merged(old: Any, patch: Any) -> Any:
    """RFC 7386, for bodies that are another operation's object with changes."""
    if not isinstance(patch, dict):
        return patch
    new = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            new.pop(key, None)
        else:
            new[key] = merged(new.get(key), value)
    return new


def _none(_: int) -> Any:
    return None


def _value(value: Any, namespace: str, answers: Answers) -> Any:
    if isinstance(value, str):
        return _text(value, namespace, answers)
    if isinstance(value, list):
        return [_value(each, namespace, answers) for each in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1 and (match := _OBJECT.fullmatch(next(iter(value)))):
        found = answers(int(match[1]))
        if not isinstance(found, dict) or found.get("kind") == "Status":
            raise UnresolvedError(next(iter(value)))
        return merged(found, _value(next(iter(value.values())), namespace, answers))
    return {_text(key, namespace, answers): _value(each, namespace, answers) for key, each in value.items()}


def _text(text: str, namespace: str, answers: Answers) -> str:
    return _REFERENCE.sub(lambda match: _reference(match, namespace, answers), text)


def _reference(match: re.Match[str], namespace: str, answers: Answers) -> str:
    if match[1] == "ns":
        return namespace
    answer = answers(int(match[2]))
    metadata = answer.get("metadata") if isinstance(answer, dict) else None
    found = (metadata or {}).get({"version": "resourceVersion"}.get(match[1], match[1]))
    if not found:
        raise UnresolvedError(match[0])
    return str(found)
