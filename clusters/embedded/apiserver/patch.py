"""The patch types: which one a content type means, and what it makes of an object. Pure."""

from __future__ import annotations

import copy
from typing import Any, Final

import jsonpatch
import msgspec

from clusters.embedded.apiserver import strategic_patch
from clusters.embedded.apiserver.objects import Object
from clusters.embedded.apiserver.refusals import RefusalError, bad_request, too_large, unsupported_media_type

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"
TYPES: Final = (JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH)

# The API server's bound on the operations of one JSON patch.
MOST_OPERATIONS: Final = 10_000


def apply(content_type: str, old: Object, body: bytes) -> Object:
    """The object after the patch in ``body``; ``old`` stays as it is. Raises RefusalError (400, 413, 415, 422)."""
    if content_type not in TYPES:
        listed = ", ".join(TYPES)
        raise unsupported_media_type(
            f"the body of the request was in an unknown format - accepted media types include: {listed}"
        )
    try:
        patch = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise bad_request(f"error decoding patch: {error}") from error
    if content_type == JSON_PATCH:
        return _json_patch(old, patch)
    if not isinstance(patch, dict):
        raise bad_request("a merge patch must be a JSON object")
    if content_type == MERGE_PATCH:
        return dict(merge(old, patch))
    try:
        return strategic_patch.apply(old, patch)
    except (ValueError, TypeError, AttributeError) as error:
        raise RefusalError(422, "Invalid", f"unable to apply the strategic merge patch: {error}") from error


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
        raise bad_request("a JSON patch must be a list of operations")
    if len(operations) > MOST_OPERATIONS:
        raise too_large(f"The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {len(operations)}")
    try:
        new = jsonpatch.JsonPatch(operations).apply(copy.deepcopy(old), in_place=True)
    except jsonpatch.InvalidJsonPatch as error:
        raise bad_request(f"error decoding patch: {error}") from error
    # The library lets errors of Python through where an operation does not fit the document.
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException, TypeError, ValueError, LookupError) as error:
        raise RefusalError(
            422, "Invalid", f"the server rejected our request due to an error in our request: {error}"
        ) from error
    if not isinstance(new, dict):
        raise bad_request("the patch does not leave an object")
    return new
