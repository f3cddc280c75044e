"""Bodies in protobuf, as kubectl's own commands send them: read, never written.

Known is what ``auth``, ``create token``, ``create namespace``, ``configmap`` and ``serviceaccount``, ``delete`` and ``drain`` send;
each message is a table from field numbers to JSON names. Answers are JSON, which every client takes. Pure.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from clusters.embedded.apiserver.api_objects import Object

MEDIA_TYPE: Final = "application/vnd.kubernetes.protobuf"
_MAGIC: Final = b"k8s\x00"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


@dataclass(frozen=True, slots=True)
class Field:
    """One field: its JSON name, what is in it (a word or the table of a message), and whether it repeats."""

    name: str
    kind: str | dict[int, Field] = "text"
    many: bool = False


def _texts(**names: int) -> dict[int, Field]:
    return {number: Field(name) for name, number in names.items()}


_OWNER: Final = {
    **_texts(kind=1, name=3, uid=4, apiVersion=5),
    6: Field("controller", "flag"),
    7: Field("blockOwnerDeletion", "flag"),
}
_METADATA: Final = {
    **_texts(name=1, generateName=2, namespace=3, uid=5, resourceVersion=6),
    7: Field("generation", "number"),
    8: Field("creationTimestamp", "time"),
    11: Field("labels", "map"),
    12: Field("annotations", "map"),
    13: Field("ownerReferences", _OWNER, many=True),
    14: Field("finalizers", many=True),
}
_RESOURCE: Final = _texts(namespace=1, verb=2, group=3, version=4, resource=5, subresource=6, name=7)
_PATH: Final = _texts(path=1, verb=2)
_WISH: Final = {1: Field("resourceAttributes", _RESOURCE), 2: Field("nonResourceAttributes", _PATH)}
_BOUND: Final = _texts(kind=1, apiVersion=2, name=3, uid=4)
_TOKEN: Final = {
    1: Field("audiences", many=True),
    3: Field("boundObjectRef", _BOUND),
    4: Field("expirationSeconds", "number"),
}
_OPTIONS: Final = {
    1: Field("gracePeriodSeconds", "number"),
    2: Field("preconditions", _texts(uid=1, resourceVersion=2)),
    3: Field("orphanDependents", "flag"),
    4: Field("propagationPolicy"),
    5: Field("dryRun", many=True),
}
_HEAD: Final = {1: Field("metadata", _METADATA)}
_KINDS: dict[str, dict[int, Field]] = {
    "SelfSubjectAccessReview": {**_HEAD, 2: Field("spec", _WISH)},
    "SelfSubjectReview": _HEAD,
    "TokenRequest": {**_HEAD, 2: Field("spec", _TOKEN)},
    "DeleteOptions": _OPTIONS,
    "Eviction": {**_HEAD, 2: Field("deleteOptions", _OPTIONS)},
    "Namespace": {**_HEAD, 2: Field("spec", {1: Field("finalizers", many=True)}), 3: Field("status", _texts(phase=1))},
    "ConfigMap": {**_HEAD, 2: Field("data", "map"), 3: Field("binaryData", "bytes map"), 4: Field("immutable", "flag")},
    "ServiceAccount": {
        **_HEAD,
        3: Field("imagePullSecrets", _texts(name=1), many=True),
        4: Field("automountServiceAccountToken", "flag"),
    },
}
_MAPS: Final = ("map", "bytes map")
_ENVELOPE: Final = {1: Field("type", _texts(apiVersion=1, kind=2)), 2: Field("raw", "bytes")}


def decoded(body: bytes) -> Object | None:
    """The object in a body, None for a kind that is not known here. Raises ValueError for what is no such body."""
    if not body.startswith(_MAGIC):
        raise ValueError("the body does not begin as Kubernetes' protobuf does")
    envelope = _message(body[len(_MAGIC) :], _ENVELOPE)
    head = envelope.get("type", {})
    table = _KINDS.get(head.get("kind", ""))
    return None if table is None else {**head, **_message(envelope.get("raw", b""), table)}


def _message(data: bytes, table: dict[int, Field]) -> Object:
    found: Object = {}
    for number, value in _fields(data):
        field = table.get(number)
        if field is None:
            continue
        read = _value(field, value)
        if field.many:
            found.setdefault(field.name, []).append(read)
        elif isinstance(read, dict) and field.kind in _MAPS:
            found.setdefault(field.name, {}).update(read)
        elif read != "" and (read != 0 or field.name != "generation"):
            # Go writes texts that are empty, and a generation that was never set; in JSON they are absent.
            found[field.name] = read
    return found


def _value(field: Field, value: Any) -> Any:
    kind = field.kind
    if isinstance(kind, dict):
        return _message(value, kind)
    if kind in _MAPS:
        entry = dict(_fields(value))
        return {entry.get(1, b"").decode(): _CONTENTS[kind](entry.get(2, b""))}
    return _PLAIN[kind](value)


def _time(value: bytes) -> str | None:
    seconds = dict(_fields(value)).get(1, 0)
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if 0 < seconds < 2**40 else None


_CONTENTS: Final[dict[str, Callable[[bytes], str]]] = {
    "map": bytes.decode,
    "bytes map": lambda content: base64.b64encode(content).decode(),
}
_PLAIN: Final[dict[str, Callable[[Any], Any]]] = {
    "text": lambda value: value.decode(),
    "bytes": lambda value: value,
    "flag": bool,
    "number": lambda value: value - 2**64 if value >= 2**63 else value,
    "time": _time,
}


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Number and value of every field of a message."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, wire = key >> 3, key & 7
        if wire == _VARINT:
            value, at = _varint(data, at)
            yield number, value
        elif wire == _BYTES:
            size, at = _varint(data, at)
            if at + size > len(data):
                raise ValueError("a field ends after its message")
            yield number, data[at : at + size]
            at += size
        elif wire in (_FIXED64, _FIXED32):
            at += 8 if wire == _FIXED64 else 4
        else:
            raise ValueError(f"a field of wire type {wire}")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 64:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise ValueError("a number that does not end")
