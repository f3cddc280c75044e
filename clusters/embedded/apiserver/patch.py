"""The patch types: which one a content type means, and what it makes of an object. Pure."""

from __future__ import annotations

import copy
from typing import Any, Final

import jsonpatch
import msgspec

from clusters.embedded.apiserver import strategic_patch
from clusters.embedded.apiserver.api_objects import Object
from clusters.embedded.apiserver.refusals import (
    RefusalError,
    bad_request,
    not_imitated,
    too_large,
)

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"
APPLY: Final = "application/apply-patch+yaml"
TYPES: Final = (JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH)

# The API server's bound on the operations of one JSON patch.
MOST_OPERATIONS: Final = 10_000


def apply(content_type: str, old: Object, body: bytes) -> Object:
    """The object after the patch in ``body``; ``old`` stays as it is. Raises RefusalError (400, 413, 415, 422)."""
    check_type(content_type)
    try:
        patch = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise bad_request(f"error decoding patch: {error}") from error
    if content_type == JSON_PATCH:
        return _json_patch(old, patch)
    if not isinstance(patch, dict):
        raise bad_request("error decoding patch: a merge patch must be a JSON object")
    if content_type == MERGE_PATCH:
        return dict(merge(old, patch))
    try:
        # The kind is known before the patch is read; the patch's own kind does not count.
        return {**strategic_patch.apply(old, patch), **{key: old[key] for key in ("kind", "apiVersion") if key in old}}
    except (ValueError, TypeError, AttributeError) as error:
        # As the real server answers a patch that only its library understands.
        raise RefusalError(500, "", str(error)) from error


def check_type(content_type: str) -> None:
    """Refuse (415, 501) what is no patch here, before anything else is looked at."""
    if content_type == APPLY:
        # It would need the owners of fields: without them nothing conflicts, and nothing that a manifest drops is removed.
        raise not_imitated("server-side apply")
    if content_type not in TYPES:
        raise RefusalError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})


def merge(old: Any, patch: Any) -> Any:
    """RFC 7386: maps are merged, null deletes, everything else replaces."""
    if not isinstance(patch, dict):
        return patch
    new = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            new.pop(key, None)
        else:
            new[key] = merge(new.get(key), value)
    return new


def _json_patch(old: Object, operations: Any) -> Object:
    """RFC 6902; the first operation that fails refuses all of them."""
    if not isinstance(operations, list) or not all(isinstance(each, dict) for each in operations):
        raise bad_request("error decoding patch: a JSON patch must be a list of operations")
    if len(operations) > MOST_OPERATIONS:
        raise too_large(
            f"Request entity too large: The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {len(operations)}"
        )
    try:
        new: Any = copy.deepcopy(old)
        for operation in operations:
            meant = _as_meant(new, operation)
            if meant is not None:
                new = jsonpatch.JsonPatch([meant]).apply(new, in_place=True)
    # The library lets errors of Python through if an operation does not fit the document.
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException, TypeError, ValueError, LookupError) as error:
        message = "the server rejected our request due to an error in our request"
        raise RefusalError(422, "Invalid", message, {}) from error
    if not isinstance(new, dict):
        raise bad_request("the patch does not leave an object")
    return new


def _as_meant(document: Any, operation: Object) -> Object | None:
    """The operation as the real server's library takes it if a key is absent in a map that exists; None: it does nothing.

    A replacement adds the key, a copy of it copies nothing (in a map of texts: an empty one), a test for null is true.
    """
    kind = operation.get("op")
    pointer = operation.get("from" if kind == "copy" else "path")
    if kind not in ("replace", "copy", "test") or not isinstance(pointer, str):
        return operation
    parent, key = jsonpatch.JsonPointer(pointer).to_last(document)
    if not isinstance(parent, dict) or key is None or key in parent:
        return operation
    if kind == "replace":
        return {**operation, "op": "add"}
    if kind == "copy":
        is_text = pointer.startswith(("/metadata/labels/", "/metadata/annotations/", "/data/"))
        return {"op": "add", "path": operation["path"], "value": "" if is_text else None}
    return None if operation.get("value", ...) is None else operation
