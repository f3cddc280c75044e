"""The parts of an observation that cannot be equal on two clusters, and the comparison of the rest.

Replaced, wherever they stand in decoded JSON: uids, resource versions, times (each by a word for its kind, so
that presence and form still count), the random end of a generated name. Left out: ``managedFields`` (the embedded server
has no server-side apply), bodies' ``continue`` tokens' content, and of a bookmark all but its metadata.

Programs read the code, the reason and the fields of a refusal, so these are compared (``verdict``). Its text is compared only
if something is forbidden or not found.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from typing import Any, Final

_UID: Final = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
_TIME: Final = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_VERSION_KEYS: Final = ("resourceVersion", "resource_version")
# The texts that are compared: something is forbidden (by rights, by a policy, by a quota), or not found.
_COMPARED: Final = re.compile(r"forbidden: | not found$")
_LEFT_OUT: Final = ("managedFields",)
_TOKEN_VOLUME: Final = re.compile(r"\bkube-api-access-[a-z0-9]{5}\b")


def normalised(value: Any) -> Any:
    """The value with what is volatile replaced."""
    if isinstance(value, Mapping):
        return {str(key): _field(str(key), one) for key, one in verdict(value).items() if key not in _LEFT_OUT}
    if isinstance(value, (list, tuple)):
        return [normalised(one) for one in value]
    if isinstance(value, str):
        return _text(value)
    return value


def verdict(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """A refusal without what only people read, a bookmark without its empty fields; anything else as it is."""
    if value.get("type") == "BOOKMARK" and isinstance(value.get("object"), Mapping):
        found = value["object"]
        return {**value, "object": {key: found.get(key) for key in ("kind", "apiVersion", "metadata")}}
    if value.get("kind") != "Status" or value.get("status") != "Failure":
        return value
    details = value.get("details") or {}
    # The real server finds some faults twice, in two rounds of its checks.
    causes = sorted({(each.get("field", ""), each.get("reason", "")) for each in details.get("causes") or ()})
    compared = {"name": details.get("name"), "retryAfterSeconds": details.get("retryAfterSeconds"), "causes": causes}
    text = value.get("message", "")
    found = {**{key: each for key, each in value.items() if key != "message"}, "details": compared}
    return {**found, "message": text} if _COMPARED.search(text) else found


def _field(key: str, value: Any) -> Any:
    if key in _VERSION_KEYS and isinstance(value, str):
        return "<version>" if value.isdigit() and value != "0" else value
    if key == "continue" and value:
        return "<continue>"
    return normalised(value)


def _text(value: str) -> str:
    value = _TIME.sub(lambda found: "<micro time>" if found[1] else "<time>", value)
    return _TOKEN_VOLUME.sub("kube-api-access-<random>", _UID.sub("<uid>", value))


def difference(first: Any, second: Any, names: tuple[str, str]) -> str:
    """The lines in which two normalised observations differ; "" when they are equal."""
    # As JSON, not as Python's values: to Python true, 1 and 1.0 are equal, to a client in Go they are not.
    before, after = (json.dumps(one, indent=1, sort_keys=True, default=str).splitlines() for one in (first, second))
    return "\n".join(difflib.unified_diff(before, after, *names, lineterm="", n=4))
