"""Durations of command lines, as Go programs and so kubectl read them: one notation for every flag of ours."""

from __future__ import annotations

import re
from typing import Final

# A longer text is no duration.
_LONGEST_TEXT: Final = 64
_NUMBER: Final = r"(?:\d+(?:\.\d*)?|\.\d+)"
_PART: Final = re.compile(rf"({_NUMBER})(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_WHOLE: Final = re.compile(rf"(?:{_NUMBER}(?:ns|us|µs|μs|ms|s|m|h))+", re.ASCII)
_SECONDS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def seconds_of(text: str) -> float | None:
    """Seconds of ``1m30s``, ``1.5h``, ``500ms`` or a bare number of seconds; None for anything else, also if it is negative."""
    if len(text) > _LONGEST_TEXT:
        return None
    if re.fullmatch(_NUMBER, text, re.ASCII):
        return float(text)
    if _WHOLE.fullmatch(text) is None:
        return None
    return sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text))
