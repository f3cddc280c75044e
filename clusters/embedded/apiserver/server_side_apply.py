"""Server-side apply without owners of fields: the manifest is merged in, and there are no conflicts.

A field that a manifest no longer has stays: there is no record of its owner.
"""

from __future__ import annotations

from typing import Final

import yaml

from clusters.embedded.apiserver import strategic_patch
from clusters.embedded.apiserver.api_objects import Object
from clusters.embedded.apiserver.refusals import RefusalError, bad_request

MEDIA_TYPE: Final = "application/apply-patch+yaml"


def manifest_of(body: bytes, params: dict[str, str]) -> Object:
    """The manifest that is applied. Raises RefusalError (400, 422)."""
    if not params.get("fieldManager"):
        why = "fieldManager: Required value: is required for apply patch"
        raise RefusalError(422, "Invalid", f'PatchOptions.meta.k8s.io "" is invalid: {why}')
    try:
        found = yaml.load(body, Loader=yaml.CSafeLoader)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise bad_request(f"error decoding YAML: {error}") from error
    if not isinstance(found, dict) or not isinstance(found.setdefault("metadata", {}), dict):
        raise bad_request("error decoding YAML: it must be one object")
    return found


def applied(old: Object, manifest: Object) -> Object:
    """The object with the manifest merged in. Raises RefusalError (400)."""
    try:
        return strategic_patch.apply(old, manifest)
    except (ValueError, TypeError, AttributeError) as error:
        raise bad_request(f"the manifest does not fit the object: {error}") from error
