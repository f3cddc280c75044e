"""In which form a client wants to see objects: whole, or as rows of a table.

Everything that answers a GET makes whole objects; here they become the form that the ``Accept`` header asks for. Only people
(``kubectl get``) ask for tables, so encoding twice costs programs nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

import msgspec

from clusters.embedded.apiserver.api_objects import Object, metadata_of
from clusters.embedded.apiserver.refusals import RefusalError
from clusters.embedded.apiserver.requests import Answer, Request
from clusters.embedded.apiserver.store import event_line
from clusters.embedded.apiserver.tables import columns_of

_JSON: Final = ("", "application/json", "application/*", "*/*", "text/plain")
_GROUP_VERSION: Final = "meta.k8s.io/v1"
_TABLE: Final = {"as=Table", "v=v1", "g=meta.k8s.io"}
_LIST_METADATA: Final = ("resourceVersion", "continue", "remainingItemCount")


def wants_table(request: Request) -> bool:
    """Is it a table that is wanted? The first form that there is counts. Raises RefusalError (406) if there is none."""
    for part in request.accept.split(","):
        media, *parameters = (word.strip() for word in part.split(";"))
        if media in _JSON and not any(word.startswith("as=") for word in parameters):
            return False
        if media in _JSON and set(parameters) >= _TABLE:
            return True
    raise RefusalError(406, "NotAcceptable", "only the following media types are accepted: application/json", {})


def shown(request: Request, answer: Answer, now: Callable[[], datetime]) -> Answer:
    """An answer of whole objects as a table; ``includeObject`` of the query says what of the object is in a row."""
    whole = request.params.get("includeObject") == "Object"
    if isinstance(answer.body, bytes):
        return replace(answer, body=msgspec.json.encode(_table(msgspec.json.decode(answer.body), now(), whole=whole)))
    return replace(answer, body=_tables(answer.body, now, whole=whole))


def warned(answer: Answer, warnings: list[str]) -> Answer:
    """An answer with warnings for the user, as ``kubectl`` prints them."""
    quoted = [text.replace("\\", "\\\\").replace('"', '\\"') for text in warnings]
    headers = tuple((b"warning", f'299 - "{text}"'.encode()) for text in quoted)
    return replace(answer, headers=(*answer.headers, *headers)) if headers else answer


def _table(document: Object, now: datetime, *, whole: bool, with_columns: bool = True) -> Object:
    """The ``Table`` of an object or of a list."""
    version, kind = document.get("apiVersion", ""), str(document.get("kind", ""))
    items = [document]
    if isinstance(document.get("items"), list) and kind.endswith("List"):
        kind = kind.removesuffix("List")
        items = [{"kind": kind, "apiVersion": version, **item} for item in document["items"]]
    columns, metadata = columns_of(version, kind), metadata_of(document)
    return {
        "kind": "Table",
        "apiVersion": _GROUP_VERSION,
        "metadata": {key: metadata[key] for key in _LIST_METADATA if key in metadata},
        "columnDefinitions": [column.definition() for column in columns] if with_columns else None,
        "rows": [
            {"cells": [column.show(item, now) for column in columns], "object": item if whole else _part(item)}
            for item in items
        ],
    }


def _part(item: Object) -> Object:
    return {"kind": "PartialObjectMetadata", "apiVersion": _GROUP_VERSION, "metadata": metadata_of(item)}


async def _tables(body: AsyncIterator[bytes], now: Callable[[], datetime], *, whole: bool) -> AsyncIterator[bytes]:
    """The events of a watch, each object as a table of one row; only the first names the columns."""
    with_columns = True
    async for chunk in body:
        lines = []
        for line in chunk.splitlines():
            event: dict[str, Any] = msgspec.json.decode(line)
            if event["type"] == "ERROR":
                lines.append(line + b"\n")
                continue
            item = _table(event["object"], now(), whole=whole, with_columns=with_columns)
            lines.append(event_line(event["type"], msgspec.json.encode(item)))
            with_columns = False
        yield b"".join(lines)
