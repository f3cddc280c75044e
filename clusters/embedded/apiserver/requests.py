"""A request as the API server looks at it, and an answer; the only module that knows ASGI's messages besides the edge."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl

import msgspec
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from clusters.embedded.apiserver.api_objects import Object
from clusters.embedded.apiserver.authorization import ANONYMOUS, User, is_on
from clusters.embedded.apiserver.field_rules import unsupported
from clusters.embedded.apiserver.refusals import RefusalError, bad_request, options_invalid, too_large

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
    for one in _fields(data):
        known = message.get(one.field_number)
        if isinstance(known, tuple):
            found[known[0]] = _read(one.data, known[1])
        elif known and known.endswith("+"):
            entry = _read(one.data, {1: "key", 2: "value"})
            found.setdefault(known[:-1], {})[entry["key"]] = entry.get("value", "")
        elif known:
            value = one.data.decode() if one.wire_type == _BYTES else one.data
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


Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

JSON: Final = "application/json"
_UNKNOWN_FORMAT: Final = (
    f"the body of the request was in an unknown format - accepted media types include: {JSON}, {MEDIA_TYPE}"
)
_NO_OBJECT: Final = "couldn't get version/kind; json parse error"
# The API server's bound on a body, in bytes.
LARGEST_BODY: Final = 3 * 1024 * 1024


def _from_protobuf(body: bytes) -> Object:
    found = decoded(body)
    if found is None:
        # kubectl sends manifests from files as JSON, whatever the kind.
        message = f"{_UNKNOWN_FORMAT} (this kind not as protobuf here: apply a manifest file)"
        raise RefusalError(415, "UnsupportedMediaType", message)
    return found


_DECODERS: Final[dict[str, Callable[[bytes], Any]]] = {
    "": msgspec.json.decode,
    JSON: msgspec.json.decode,
    MEDIA_TYPE: _from_protobuf,
}


@dataclass(frozen=True, slots=True)
class Request:
    """One request; ``path`` is as it was sent, percent signs not resolved."""

    method: str
    path: str
    params: dict[str, str]
    content_type: str
    accept: str
    body: bytes
    user: User = ANONYMOUS
    warnings: list[str] = field(default_factory=list)
    """The warnings beside the answer."""

    def is_set(self, name: str) -> bool:
        """Whether a flag of the query is on."""
        return is_on(self.params, name)

    @property
    def dry_run(self) -> bool:
        """Whether nothing must be written."""
        return bool(self.params.get("dryRun"))

    def object(self, kind: str = "") -> Object:
        """The body as one object, of that kind if it is known. Raises RefusalError (400, 415)."""
        start = f"the object provided is unrecognized (must be of type {kind}): " if kind else ""
        found = self.json(start) if self.body else ""
        if found is None:
            return {}
        if not isinstance(found, dict):
            raise bad_request(f"{start}{_NO_OBJECT}: it must be one object ({self.body[:30].hex() or '<empty>'})")
        return found

    def json(self, start: str = "") -> Any:
        """The body, None if it is empty; ``start`` begins the error for a bad one. Raises RefusalError (400, 415)."""
        if not self.body:
            return None
        try:
            return _DECODERS[self.content_type](self.body)
        except KeyError:
            raise RefusalError(415, "UnsupportedMediaType", _UNKNOWN_FORMAT) from None
        except (ValueError, RecursionError) as error:
            raise bad_request(f"{start}{_NO_OBJECT}: {error} ({self.body[:30].hex()})") from error


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer; a body that is an iterator is sent piece by piece until it ends or the client is gone."""

    body: bytes | AsyncIterator[bytes]
    code: int = 200
    content_type: str = JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()


def json_answer(item: Any, code: int = 200) -> Answer:
    """An answer from something that is not encoded yet."""
    return Answer(msgspec.json.encode(item), code)


def target_of(scope: Message) -> tuple[str, dict[str, str]]:
    """Path and query of a request."""
    path = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1").partition("?")[0]
    return path, dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))


def headers_of(scope: Message) -> dict[str, str]:
    """The headers of a request, by their names in lower case; the first of several counts."""
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in reversed(scope["headers"])}


async def read_request(scope: Message, receive: Receive, user: User = ANONYMOUS) -> Request:
    """The whole request of that user. Raises RefusalError (413)."""
    headers = headers_of(scope)
    chunks: list[bytes] = []
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise bad_request("the client went away")
        chunks.append(message.get("body", b""))
        size += len(chunks[-1])
        # The body of a GET is not read.
        if size > LARGEST_BODY and scope["method"] != "GET":
            raise too_large(f"Request entity too large: limit is {LARGEST_BODY}")
        more = message.get("more_body", False)
    path, params = target_of(scope)
    return Request(
        method=scope["method"],
        path=path,
        params=params,
        content_type=_media_type(headers.get("content-type", "")),
        accept=headers.get("accept", ""),
        body=b"".join(chunks),
        user=user,
    )


def _media_type(header: str) -> str:
    """The type without its parameters; what is there and names none stays as it is, and is refused."""
    return header.partition(";")[0].strip().lower() or header


_UNSIGNED: Final = re.compile(r"[0-9]{1,19}")
_SIGNED: Final = re.compile(r"[-+]?[0-9]{1,18}")

Params = Mapping[str, str]


def version_of(params: Params, *, in_list: bool = False) -> int:
    """The version that is asked for; 0: none. Raises RefusalError: 400 for a list, else 500, as the real server does."""
    text = params.get("resourceVersion", "")
    if text and not _UNSIGNED.fullmatch(text):
        reason = f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
        raise bad_request(f"invalid resource version: {reason}") if in_list else RefusalError(500, "", reason)
    return int(text) if text else 0


def number(params: Params, name: str) -> int:
    """A whole number of the query; 0 if it is absent. Raises RefusalError (400)."""
    text = params.get(name, "")
    if text and not _SIGNED.fullmatch(text):
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return int(text) if text else 0


def check_dry_run(kind: str, *stages: str) -> None:
    """Refuse (422) other stages to leave out of a write than all, or none; ``kind`` is that of the write's options."""
    wrong = [unsupported("dryRun", stage, ("All",)) for stage in stages if stage not in ("", "All")]
    if wrong:
        raise options_invalid(kind, wrong)
