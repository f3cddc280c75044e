"""A request as the API server looks at it, and an answer; the only module that knows ASGI's messages besides the edge."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl

import msgspec

from clusters.embedded.apiserver import protobuf
from clusters.embedded.apiserver.api_objects import Object
from clusters.embedded.apiserver.authentication import ANONYMOUS, User
from clusters.embedded.apiserver.authorization import is_on
from clusters.embedded.apiserver.refusals import RefusalError, bad_request, too_large

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

JSON: Final = "application/json"
_UNKNOWN_FORMAT: Final = (
    f"the body of the request was in an unknown format - accepted media types include: {JSON}, {protobuf.MEDIA_TYPE}"
)
_NO_OBJECT: Final = "couldn't get version/kind; json parse error"
# The API server's bound on a body, in bytes.
LARGEST_BODY: Final = 3 * 1024 * 1024


def _from_protobuf(body: bytes) -> Object:
    found = protobuf.decoded(body)
    if found is None:
        # kubectl sends manifests from files as JSON, whatever the kind.
        message = f"{_UNKNOWN_FORMAT} (this kind not as protobuf here: apply a manifest file)"
        raise RefusalError(415, "UnsupportedMediaType", message)
    return found


_DECODERS: Final[dict[str, Callable[[bytes], Any]]] = {
    "": msgspec.json.decode,
    JSON: msgspec.json.decode,
    protobuf.MEDIA_TYPE: _from_protobuf,
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
