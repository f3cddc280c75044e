"""Times as the API writes them: RFC 3339 in UTC, in whole seconds, or with six decimals in leases and events. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any, Final

_MICRO: Final = frozenset({"acquireTime", "renewTime", "eventTime", "lastObservedTime"})
_SECONDS: Final = frozenset(
    {"creationTimestamp", "deletionTimestamp", "firstTimestamp", "lastTimestamp", "deprecatedFirstTimestamp"}
    | {"deprecatedLastTimestamp", "lastTransitionTime", "lastProbeTime", "lastHeartbeatTime", "lastUpdateTime"}
    | {"startTime", "startedAt", "finishedAt", "timeAdded"}
)
# Maps with keys of the user's own.
_OWN_KEYS: Final = frozenset(
    {"labels", "annotations", "matchLabels", "nodeSelector", "data", "binaryData", "stringData"}
)
_FORM: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,](\d+))?(?:Z|[+-]\d\d:\d\d)", re.ASCII)


def normalise(value: Any) -> None:
    """Write every time in its one form. Changes the value. Raises ValueError for a text that is no time."""
    if isinstance(value, list):
        for each in value:
            normalise(each)
    elif isinstance(value, dict):
        for key, each in value.items():
            if isinstance(each, str) and (key in _MICRO or key in _SECONDS):
                value[key] = _time(each, micro=key in _MICRO)
            elif key not in _OWN_KEYS:
                normalise(each)


def _time(text: str, *, micro: bool) -> str:
    layout = "2006-01-02T15:04:05.000000Z07:00" if micro else "2006-01-02T15:04:05Z07:00"
    found = _FORM.fullmatch(text)
    if found is None or (micro and len(found[1] or "") != 6):
        raise ValueError(f'parsing time "{text}" as "{layout}": cannot parse "{text}"')
    try:
        whole = re.sub(r"[.,]\d+", "", text)
        at = datetime.fromisoformat(whole).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(f'parsing time "{text}": out of range') from None
    decimals = f".{found[1]}" if micro else ""
    return f"{at:%Y-%m-%dT%H:%M:%S}{decimals}Z".rjust(20, "0")
