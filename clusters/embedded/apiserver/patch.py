"""The patch types: which one a content type means, and what it makes of an object. Pure."""

from __future__ import annotations

from typing import Any, Final

import jsonpatch
import msgspec

from clusters.embedded.apiserver.api_objects import Object
from clusters.embedded.apiserver.refusals import RefusalError, bad_request, not_imitated

# Lists with elements that are merged by a key. A name means the same in all kinds that we know.
_FIELDS_BY_KEY: Final = {
    "type": "addresses conditions",
    "name": "containers env ephemeralContainers imagePullSecrets initContainers resourceClaims schedulingGates volumes",
    "ip": "hostAliases hostIPs podIPs",
    "uid": "ownerReferences",
    "containerPort": "ports",
    "topologyKey": "topologySpreadConstraints",
    "devicePath": "volumeDevices",
    "mountPath": "volumeMounts",
}
_MERGE_KEYS: Final = {field: key for key, fields in _FIELDS_BY_KEY.items() for field in fields.split()}
# Lists of words that are merged as sets.
_SETS: Final = frozenset({"finalizers"})

_DIRECTIVE: Final = "$patch"
_RETAIN: Final = "$retainKeys"
_DELETE_WORDS: Final = "$deleteFromPrimitiveList/"
_ORDER: Final = "$setElementOrder/"


def apply(old: Object, patch: Object) -> Object:
    """The object after a strategic merge patch. Raises ValueError for a patch that makes no sense."""
    directive = patch.get(_DIRECTIVE)
    if directive == "replace":
        cleaned: Object = _cleaned({key: value for key, value in patch.items() if key != _DIRECTIVE})
        return cleaned
    if directive == "delete":
        return {}
    if directive is not None:
        raise ValueError(f"unknown patch type: {directive} in map: map[]")
    new = _merged_fields(old, patch)
    for key in [key for key in patch if key.startswith(_ORDER)]:
        field = key.removeprefix(_ORDER)
        if isinstance(new.get(field), list):
            new[field] = _ordered(new[field], patch[key], old.get(field) or [], _MERGE_KEYS.get(field))
    if _RETAIN in patch:
        new = {key: value for key, value in new.items() if key in patch[_RETAIN]}
    return new


def _merged_fields(old: Object, patch: Object) -> Object:
    new = dict(old)
    for key, value in patch.items():
        if key.startswith(_DELETE_WORDS):
            field = key.removeprefix(_DELETE_WORDS)
            new[field] = [word for word in new.get(field) or [] if word not in value]
        elif key not in (_DIRECTIVE, _RETAIN) and not key.startswith(_ORDER):
            _merge_field(new, key, value)
    return new


def _merge_field(new: Object, key: str, value: Any) -> None:
    current = new.get(key)
    if value is None:
        new.pop(key, None)
    elif isinstance(value, dict) and _DIRECTIVE in value and not isinstance(current, dict):
        # As the real server does it: a directive needs something that it can be applied to.
        return
    elif isinstance(value, dict):
        merged = apply(current if isinstance(current, dict) else {}, value)
        if merged or value.get(_DIRECTIVE) != "delete":
            new[key] = merged
        else:
            new.pop(key, None)
    elif isinstance(value, list):
        new[key] = _merge_list(key, current if isinstance(current, list) else [], value)
    else:
        new[key] = value


def _merge_list(field: str, old: list[Any], patch: list[Any]) -> list[Any]:
    if field in _SETS:
        return _ordered(old + [word for word in patch if word not in old], patch, old, None)
    merge_key = _MERGE_KEYS.get(field)
    if merge_key is None or not all(isinstance(each, dict) for each in [*old, *patch]):
        return [_cleaned(each) for each in patch]
    if any(each.get(_DIRECTIVE) == "replace" for each in patch):
        return [_cleaned(each) for each in patch if each.get(_DIRECTIVE) != "replace"]
    merged = list(old)
    for each in patch:
        if merge_key not in each:
            raise ValueError(f"map: map[] does not contain declared merge key: {merge_key}")
        _merge_element(merged, merge_key, each)
    return _ordered(merged, [each for each in patch if _DIRECTIVE not in each], old, merge_key)


def _ordered(merged: list[Any], wanted: list[Any], old: list[Any], merge_key: str | None) -> list[Any]:
    """A merged list: what the patch names, in its order, before everything else that did not stand before it already."""

    def name(each: Any) -> Any:
        return each.get(merge_key) if merge_key and isinstance(each, dict) else each

    places = {str(name(each)): at for at, each in enumerate(old)}
    order = [name(each) for each in wanted]
    named = sorted((each for each in merged if name(each) in order), key=lambda each: order.index(name(each)))
    others = [each for each in merged if name(each) not in order]
    result = []
    for each in named:
        place = places.get(str(name(each)), -1)
        while others and places.get(str(name(others[0])), len(old)) < place:
            result.append(others.pop(0))
        result.append(each)
    return result + others


def _merge_element(elements: list[Any], merge_key: str, patch: Object) -> None:
    place = next((at for at, each in enumerate(elements) if each.get(merge_key) == patch[merge_key]), None)
    if patch.get(_DIRECTIVE) == "delete":
        if place is not None:
            del elements[place]
    elif place is None:
        elements.append(apply({}, patch))
    else:
        elements[place] = apply(elements[place], patch)


def _cleaned(value: Any) -> Any:
    """A value that is taken over whole: nulls and directives in it say nothing."""
    if isinstance(value, dict):
        return {k: _cleaned(each) for k, each in value.items() if each is not None and not k.startswith("$")}
    return [_cleaned(each) for each in value] if isinstance(value, list) else value


JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"
APPLY: Final = "application/apply-patch+yaml"
TYPES: Final = (JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH)


def patched(content_type: str, old: Object, body: bytes) -> Object:
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
        return {**apply(old, patch), **{key: old[key] for key in ("kind", "apiVersion") if key in old}}
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
