"""In which form a client wants to see objects: whole, or as rows of a table.

Everything that answers a GET makes whole objects; here they become the form that the ``Accept`` header asks for. Only people
(``kubectl get``) ask for tables, so encoding twice costs programs nothing. Metadata alone (PartialObjectMetadata) is 406.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

import msgspec

from clusters.embedded.apiserver.api_objects import Object, metadata_of
from clusters.embedded.apiserver.refusals import RefusalError, bad_request
from clusters.embedded.apiserver.requests import OFFERED, Answer, Request
from clusters.embedded.apiserver.store import event_line
from clusters.embedded.apiserver.tables.kinds import columns_of

_TABLE: Final = "Table"
_TYPES: Final = ("application/json", "application/*", "*/*")
_VERSIONS: Final = ("v1", "v1beta1")
_GROUP: Final = "meta.k8s.io"
# The part of the object in a row, ``includeObject`` of the query.
_INCLUDED: Final = ("", "None", "Metadata", "Object")
_LIST_METADATA: Final = ("resourceVersion", "continue", "remainingItemCount")


@dataclass(frozen=True, slots=True)
class View:
    """The table that the client wants: its version, and the content of a row."""

    version: str
    included: str


def clauses(accept: str) -> list[tuple[str, dict[str, str]]]:
    """The types in an ``Accept`` header with their parameters, in their order: kubectl gives no weights."""
    found = []
    for part in accept.split(","):
        media, *rest = (word.strip() for word in part.split(";"))
        pairs = (word.partition("=") for word in rest if "=" in word)
        found.append((media.lower(), {key.strip(): value.strip() for key, _, value in pairs}))
    return found


def view_of(request: Request) -> View | None:
    """The table that is wanted; None: whole objects. The first form that there is counts. Raises RefusalError (400, 406)."""
    found = clauses(request.accept) if request.accept else []
    for type_, parameters in found:
        if type_ in _TYPES and "as" not in parameters:
            return None
        if type_ in _TYPES and _is_table(parameters):
            return _checked(View(parameters["v"], request.params.get("includeObject", "")))
    if any("as" in parameters for _, parameters in found):
        raise RefusalError(406, "NotAcceptable", f"only the following media types are accepted: {', '.join(OFFERED)}")
    return None


def _is_table(parameters: dict[str, str]) -> bool:
    return parameters["as"] == _TABLE and parameters.get("g") == _GROUP and parameters.get("v") in _VERSIONS


def _checked(view: View) -> View:
    if view.included not in _INCLUDED:
        raise bad_request(
            f"includeObject: Invalid value: \"{view.included}\": must be 'Metadata', 'Object', 'None', or empty"
        )
    return view


def shown(answer: Answer, view: View | None, now: Callable[[], datetime]) -> Answer:
    """An answer of whole objects in the form that is wanted."""
    if view is None or answer.code >= 300:
        return answer
    if isinstance(answer.body, bytes):
        return replace(answer, body=msgspec.json.encode(_table(msgspec.json.decode(answer.body), view, now())))
    return replace(answer, body=_tables(answer.body, view, now))


def warned(answer: Answer, warnings: list[str]) -> Answer:
    """An answer with warnings for the user, as ``kubectl`` prints them."""
    quoted = [text.replace("\\", "\\\\").replace('"', '\\"') for text in warnings]
    headers = tuple((b"warning", f'299 - "{text}"'.encode()) for text in quoted)
    return replace(answer, headers=(*answer.headers, *headers)) if headers else answer


def _table(document: Object, view: View, now: datetime, *, with_columns: bool = True) -> Object:
    """The ``Table`` of an object or of a list."""
    items, kind = _rows_of(document)
    columns = columns_of(str(document.get("apiVersion", "")), kind)
    metadata = metadata_of(document)
    return {
        "kind": "Table",
        "apiVersion": f"{_GROUP}/{view.version}",
        "metadata": {key: metadata[key] for key in _LIST_METADATA if key in metadata},
        "columnDefinitions": [column.definition() for column in columns] if with_columns else None,
        "rows": [
            {
                "cells": [column.show(item, now) for column in columns],
                "object": _part(item, view),
            }
            for item in items
        ],
    }


def _rows_of(document: Object) -> tuple[list[Object], str]:
    """The objects of a document, each with its kind and version, and that kind."""
    kind, version = str(document.get("kind", "")), document.get("apiVersion", "")
    if not (isinstance(document.get("items"), list) and kind.endswith("List")):
        return [document], kind
    kind = kind.removesuffix("List")
    return [{"kind": kind, "apiVersion": version, **item} for item in document["items"]], kind


def _part(item: Object, view: View) -> Object | None:
    if view.included == "None":
        return None
    if view.included == "Object":
        return item
    return {"kind": "PartialObjectMetadata", "apiVersion": f"{_GROUP}/{view.version}", "metadata": metadata_of(item)}


async def _tables(body: AsyncIterator[bytes], view: View, now: Callable[[], datetime]) -> AsyncIterator[bytes]:
    """The events of a watch, each object as a table of one row; only the first names the columns."""
    with_columns = True
    async for chunk in body:
        lines = []
        for line in chunk.splitlines():
            event: dict[str, Any] = msgspec.json.decode(line)
            if event["type"] == "ERROR":
                lines.append(line + b"\n")
                continue
            item = _table(event["object"], view, now(), with_columns=with_columns)
            lines.append(event_line(event["type"], msgspec.json.encode(item)))
            with_columns = False
        yield b"".join(lines)
