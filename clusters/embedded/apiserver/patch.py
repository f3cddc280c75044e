"""The patch types: which one a content type means, and what it makes of an object. Pure."""

from __future__ import annotations

from typing import Any, Final

import jsonpatch
import msgspec

from clusters.embedded.apiserver import strategic_patch
from clusters.embedded.apiserver.api_objects import Object
from clusters.embedded.apiserver.refusals import RefusalError, bad_request, not_imitated

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"
APPLY: Final = "application/apply-patch+yaml"
TYPES: Final = (JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH)


def apply(content_type: str, old: Object, body: bytes) -> Object:
    """The object after the patch in ``body``; ``old`` stays as it is. Raises RefusalError (400, 415, 422)."""
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
    try:
        new: Any = jsonpatch.JsonPatch(operations).apply(old)
    # The library lets errors of Python through if an operation does not fit the document.
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException, TypeError, ValueError, LookupError) as error:
        message = "the server rejected our request due to an error in our request"
        raise RefusalError(422, "Invalid", message, {}) from error
    if not isinstance(new, dict):
        raise bad_request("the patch does not leave an object")
    return new
