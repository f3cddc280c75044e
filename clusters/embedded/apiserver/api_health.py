"""Whether the server is well: ``/healthz``, ``/livez`` and ``/readyz``, their parts, and the list of these. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_PATHS: Final = ("healthz", "livez", "readyz")
_PARTS: Final = ("ping", "log", "etcd")


def health(path: str, params: Mapping[str, str]) -> str | None:
    """The answer at a path; None if there is no such check."""
    parts = path.strip("/").split("/")
    if parts[0] not in _PATHS or len(parts) > 2 or (len(parts) == 2 and parts[1] not in _PARTS):
        return None
    if len(parts) == 1 and "verbose" in params:
        return "".join(f"[+]{part} ok\n" for part in _PARTS) + f"{parts[0]} check passed\n"
    return "ok"
