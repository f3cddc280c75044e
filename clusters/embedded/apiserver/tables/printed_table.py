"""A ``Table`` of meta.k8s.io/v1, and the other form in which objects are shown in part. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from clusters.embedded.apiserver.api_objects import Object, metadata_of
from clusters.embedded.apiserver.tables.registry import columns_of, row_conditions

META: Final = "meta.k8s.io/v1"
# The part of the object in a row, ``includeObject`` of the query.
INCLUDED: Final = ("None", "Metadata", "Object")


def table_of(document: Object, included: str, now: datetime, *, with_columns: bool = True) -> Object:
    """The table of an object or of a list; ``included`` is one of INCLUDED or empty."""
    items, kind = rows_of(document)
    columns = columns_of(str(document.get("apiVersion", "")), kind)
    metadata = metadata_of(document)
    return {
        "kind": "Table",
        "apiVersion": META,
        "metadata": {key: metadata[key] for key in _LIST_METADATA if key in metadata},
        "columnDefinitions": [column.definition() for column in columns] if with_columns else None,
        "rows": [
            {
                "cells": [column.show(item, now) for column in columns],
                **({"conditions": conditions} if (conditions := row_conditions(item)) else {}),
                "object": _included(item, included),
            }
            for item in items
        ],
    }


def metadata_only(document: Object) -> Object:
    """An object, or a list of objects, of which only the metadata is shown."""
    if not is_list(document):
        return _partial(document)
    items, _ = rows_of(document)
    return {
        "kind": "PartialObjectMetadataList",
        "apiVersion": META,
        "metadata": metadata_of(document),
        "items": [_partial(item) for item in items],
    }


def is_list(document: Object) -> bool:
    """Whether it is a list of objects."""
    return isinstance(document.get("items"), list) and str(document.get("kind", "")).endswith("List")


def rows_of(document: Object) -> tuple[list[Object], str]:
    """The objects of a document, each saying what it is, and their kind."""
    kind, version = str(document.get("kind", "")), document.get("apiVersion", "")
    if not is_list(document):
        return [document], kind
    kind = kind.removesuffix("List")
    return [{"kind": kind, "apiVersion": version, **item} for item in document["items"]], kind


_LIST_METADATA: Final = ("resourceVersion", "continue", "remainingItemCount")


def _included(item: Object, included: str) -> Any:
    if included == "None":
        return None
    return item if included == "Object" else _partial(item)


def _partial(item: Object) -> Object:
    return {"kind": "PartialObjectMetadata", "apiVersion": META, "metadata": metadata_of(item)}
