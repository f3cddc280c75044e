"""Bodies in protobuf, as kubectl sends some of them: read, never written. Pure.

Known is what ``kubectl auth``, ``drain`` and ``create`` of a token, Namespace, ServiceAccount or ConfigMap send: for each
message the JSON names by field number, a whole number, or the message in it. Answers are JSON, which every client takes.
"""

from __future__ import annotations

from typing import Any, Final

from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from clusters.embedded.apiserver.api_objects import Object

MEDIA_TYPE: Final = "application/vnd.kubernetes.protobuf"
_MAGIC: Final = b"k8s\x00"
_BYTES: Final = 2

# A field is its name (a text or a number), or its name and the message in it; a name with a star may come more than once, and one
# with a plus is a map of texts, an entry a time.
_Message = dict[int, "str | tuple[str, _Message]"]
_HEAD: Final[_Message] = {1: ("metadata", {1: "name", 2: "generateName", 3: "namespace"})}
_RESOURCE: Final[_Message] = dict(
    enumerate(("namespace", "verb", "group", "version", "resource", "subresource", "name"), 1)
)
_WISH: Final[_Message] = {1: ("resourceAttributes", _RESOURCE), 2: ("nonResourceAttributes", {1: "path", 2: "verb"})}
_BOUND: Final[_Message] = {1: "kind", 2: "apiVersion", 3: "name", 4: "uid"}
_TOKEN: Final[_Message] = {1: "audiences*", 3: ("boundObjectRef", _BOUND), 4: "expirationSeconds"}
_OPTIONS: Final[_Message] = {
    1: "gracePeriodSeconds",
    2: ("preconditions", {1: "uid", 2: "resourceVersion"}),
    4: "propagationPolicy",
    5: "dryRun*",
}
_KINDS: Final[dict[str, _Message]] = {
    "SelfSubjectAccessReview": {**_HEAD, 2: ("spec", _WISH)},
    "SelfSubjectReview": _HEAD,
    "TokenRequest": {**_HEAD, 2: ("spec", _TOKEN)},
    "Eviction": {**_HEAD, 2: ("deleteOptions", _OPTIONS)},
    "Namespace": _HEAD,
    "ServiceAccount": _HEAD,
    "ConfigMap": {**_HEAD, 2: "data+"},
}
_TYPE: Final[_Message] = {1: "apiVersion", 2: "kind"}


def decoded(body: bytes) -> Object | None:
    """The object in a body, None for a kind that is not known here. Raises ValueError for what is no such body."""
    if not body.startswith(_MAGIC):
        raise ValueError("the body does not begin as Kubernetes' protobuf does")
    envelope = {field.field_number: field.data for field in _fields(body[len(_MAGIC) :])}
    head = _read(envelope.get(1, b""), _TYPE)
    message = _KINDS.get(head.get("kind", ""))
    return None if message is None else {**head, **_read(envelope.get(2, b""), message)}


def _read(data: bytes, message: _Message) -> Object:
    found: Object = {}
    for field in _fields(data):
        known = message.get(field.field_number)
        if isinstance(known, tuple):
            found[known[0]] = _read(field.data, known[1])
        elif known and known.endswith("+"):
            entry = _read(field.data, {1: "key", 2: "value"})
            found.setdefault(known[:-1], {})[entry["key"]] = entry.get("value", "")
        elif known:
            value = field.data.decode() if field.wire_type == _BYTES else field.data
            if known.endswith("*"):
                found.setdefault(known[:-1], []).append(value)
            elif value != "":  # Go writes texts that are empty; in JSON they are absent.
                found[known] = value
    return found


def _fields(data: bytes) -> Any:
    try:
        return UnknownFieldSet(Empty.FromString(data))
    except DecodeError as error:
        raise ValueError(str(error)) from error
