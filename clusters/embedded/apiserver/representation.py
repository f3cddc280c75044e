"""In which form a client wants to see objects: whole, as rows of a table, or only their metadata.

Everything that answers a GET makes whole objects; here they become the form that the ``Accept`` header asks for. Only people
(``kubectl get``) ask for tables, so encoding twice costs programs nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

import msgspec

from clusters.embedded.apiserver.api_objects import Object
from clusters.embedded.apiserver.refusals import RefusalError, bad_request
from clusters.embedded.apiserver.requests import OFFERED, Answer, Request
from clusters.embedded.apiserver.store import event_line
from clusters.embedded.apiserver.tables.printed_table import INCLUDED, is_list, metadata_only, table_of

_TABLE: Final = "Table"
_METADATA: Final = "PartialObjectMetadata"
_METADATA_LIST: Final = "PartialObjectMetadataList"
_TYPES: Final = ("application/json", "application/*", "*/*")
_VERSIONS: Final = ("v1", "v1beta1")
_GROUP: Final = "meta.k8s.io"


@dataclass(frozen=True, slots=True)
class Clause:
    """One clause of an ``Accept`` header."""

    type: str
    parameters: dict[str, str]

    @property
    def weight(self) -> float:
        """How much the client likes it, 0 to 1."""
        try:
            return float(self.parameters.get("q", "1"))
        except ValueError:
            return 1.0


@dataclass(frozen=True, slots=True)
class View:
    """The form that the client wants (empty: whole objects), its version, and the content of a table's row."""

    form: str = ""
    version: str = "v1"
    included: str = ""

    @property
    def is_whole(self) -> bool:
        """Whether objects are shown as they are."""
        return not self.form


WHOLE: Final = View()


def clauses(accept: str) -> list[Clause]:
    """The clauses of an ``Accept`` header, the most wanted first."""
    found = []
    for part in accept.split(","):
        media, *rest = (word.strip() for word in part.split(";"))
        pairs = (word.partition("=") for word in rest if "=" in word)
        found.append(Clause(media.lower(), {key.strip(): value.strip() for key, _, value in pairs}))
    return sorted(found, key=lambda clause: -clause.weight)


def view_of(request: Request) -> View:
    """The first form among those wanted that there is. Raises RefusalError (400, 406)."""
    if not request.accept:
        return WHOLE
    for clause in clauses(request.accept):
        if clause.type in _TYPES and "as" not in clause.parameters:
            return WHOLE
        if clause.type in _TYPES and _is_known(clause.parameters):
            return _checked(View(clause.parameters["as"], clause.parameters["v"], _included(request)), request)
    if any("as" in clause.parameters for clause in clauses(request.accept)):
        raise RefusalError(406, "NotAcceptable", f"only the following media types are accepted: {', '.join(OFFERED)}")
    return WHOLE


def _is_known(parameters: dict[str, str]) -> bool:
    forms = (_TABLE, _METADATA, _METADATA_LIST)
    return parameters["as"] in forms and parameters.get("g") == _GROUP and parameters.get("v") in _VERSIONS


def _included(request: Request) -> str:
    return request.params.get("includeObject", "")


def _checked(view: View, request: Request) -> View:
    if view.form == _TABLE and view.included not in ("", *INCLUDED):
        why = f"Invalid value: \"{view.included}\": must be 'Metadata', 'Object', 'None', or empty"
        raise bad_request(f"Unable to convert to Table as requested: includeObject: {why}")
    return view


def shown(answer: Answer, view: View, now: Callable[[], datetime]) -> Answer:
    """An answer of whole objects in the form that is wanted. Raises RefusalError (406) for a form that does not fit."""
    if view.is_whole or answer.code >= 300:
        return answer
    if isinstance(answer.body, bytes):
        return replace(answer, body=msgspec.json.encode(_shown(msgspec.json.decode(answer.body), view, now())))
    return replace(answer, body=_retold(answer.body, view, now))


def warned(answer: Answer, warnings: list[str]) -> Answer:
    """An answer with warnings for the user, as ``kubectl`` prints them."""
    quoted = [text.replace("\\", "\\\\").replace('"', '\\"') for text in warnings]
    headers = tuple((b"warning", f'299 - "{text}"'.encode()) for text in quoted)
    return replace(answer, headers=(*answer.headers, *headers)) if headers else answer


def _shown(document: Object, view: View, now: datetime, *, with_columns: bool = True) -> Object:
    if view.form == _TABLE:
        found = table_of(document, view.included, now, with_columns=with_columns)
    else:
        if is_list(document) != (view.form == _METADATA_LIST):
            what = "a list" if is_list(document) else "not a list"
            raise RefusalError(406, "NotAcceptable", f"you requested {view.form}, but the requested object is {what}")
        found = metadata_only(document)
    return {**found, "apiVersion": f"{_GROUP}/{view.version}"}


async def _retold(body: AsyncIterator[bytes], view: View, now: Callable[[], datetime]) -> AsyncIterator[bytes]:
    """The events of a watch, their objects in the form that is wanted; only the first names the columns."""
    with_columns = True
    one = replace(view, form=_METADATA) if view.form == _METADATA_LIST else view
    async for chunk in body:
        told = []
        for line in chunk.splitlines():
            event: dict[str, Any] = msgspec.json.decode(line)
            if event["type"] == "ERROR":
                told.append(line + b"\n")
                continue
            item = _shown(event["object"], one, now(), with_columns=with_columns)
            told.append(event_line(event["type"], msgspec.json.encode(item)))
            with_columns = False
        yield b"".join(told)
