"""Durations as Go writes them: ``30s``, ``1m30s``, ``1.5h``, ``250ms``."""

from __future__ import annotations

import re

UNIT_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
PART = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)")


def seconds_of(text: str) -> float:
    """Seconds of a Go duration. Raises ValueError if Go's parser would refuse it; a number needs its unit."""
    sign, body = (-1.0, text[1:]) if text.startswith("-") else (1.0, text.removeprefix("+"))
    if body == "0":
        return 0.0
    parts = list(PART.finditer(body))
    if not parts or "".join(part.group() for part in parts) != body:
        raise ValueError(f"{text!r} is no duration (examples: 30s, 1m30s, 250ms; a number needs its unit)")
    return sign * sum(float(part[1]) * UNIT_SECONDS[part[2]] for part in parts)
