"""One line for what a wait saw last: of an object of the API what matters in a failure, of anything else its beginning. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

_LONGEST: Final = 1000
_MOST_OBJECTS: Final = 10


def glimpse(value: object) -> str:
    """The line."""
    if _is_object(value):
        return _object(value)
    if isinstance(value, (list, tuple)) and value and all(map(_is_object, value)):
        more = f"; and {len(value) - _MOST_OBJECTS} more" if len(value) > _MOST_OBJECTS else ""
        return "; ".join(map(_object, value[:_MOST_OBJECTS])) + more
    text = str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text)} characters)"


def _is_object(value: object) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("metadata"), Mapping) and "name" in value["metadata"]


def _object(value: Any) -> str:
    """Its name, phase, node, reasons and messages of its state, and the conditions that do not hold."""
    metadata, status = value["metadata"], value.get("status") or {}
    facts = [status["phase"]] if status.get("phase") else []
    if metadata.get("deletionTimestamp"):
        facts.append("being deleted")
    if node := (value.get("spec") or {}).get("nodeName"):
        facts.append(f"on {node}")
    facts += [str(status[key]) for key in ("reason", "message") if status.get(key)]
    facts += _containers(status)
    facts += [
        f"{one.get('type')}={one.get('status')} {one.get('reason', '')} {one.get('message', '')}".strip()
        for one in status.get("conditions") or ()
        if one.get("status") != "True" and one.get("message")
    ]
    name = "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))
    return f"{name}: {', '.join(facts) or 'no status'}"


def _containers(status: Mapping[str, Any]) -> Iterator[str]:
    for one in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        for kind, state in (one.get("state") or {}).items():
            if kind != "running":
                said = " ".join(str(state[key]) for key in ("reason", "message", "exitCode") if key in state)
                yield f"container {one.get('name')} {kind} {said}".rstrip()
