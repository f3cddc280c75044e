"""The answer of ``events``, as a document for programs: the events that our programs wrote, the last one last. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from gpushare.kubectl_gpushare.core.explanation import API_VERSION
from gpushare.kubectl_gpushare.core.scheduler_objects import Event

_OURS: Final = "GPUShare"


def event_list(events: Iterable[Event], hidden: Sequence[str]) -> dict[str, Any]:
    """The events with a reason of ours."""
    ours = sorted((one for one in events if (one.reason or "").startswith(_OURS)), key=lambda one: one.when)
    return {
        "apiVersion": API_VERSION,
        "kind": "EventList",
        "events": [
            {
                "when": one.when,
                "type": one.type or "",
                "reason": one.reason,
                "object": f"{one.involved_object.kind.lower()}/{one.involved_object.name}",
                "namespace": one.involved_object.namespace or "",
                "count": one.count or 1,
                "message": one.message or "",
            }
            for one in ours
        ],
        "hidden": list(hidden),
    }
