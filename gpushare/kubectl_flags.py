"""The flags by which programs for people reach an API server, as kubectl has them."""

from __future__ import annotations

from dataclasses import dataclass

from gpushare.errors import UsageError
from gpushare.flags import flag, optional, seconds_of


def _timeout(text: str) -> float | None:
    """Seconds of a duration; none for 0 and for an empty text, as kubectl takes them."""
    seconds = seconds_of(text) if text else 0.0
    if seconds is None:
        raise UsageError(", not a duration such as 5s, 1m30s or 0")
    return seconds or None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiFlags:
    """The way to the API server. ``request_timeout`` is in seconds, None for no limit."""

    kubeconfig: str | None = flag(
        "kubeconfig", "kubeconfig", "", optional(str), shown="$KUBECONFIG, else ~/.kube/config, else in-cluster"
    )
    context: str | None = flag("context", "context of the kubeconfig", "", optional(str), shown="its current one")
    request_timeout: float | None = flag(
        "request-timeout", "longest wait for an answer, such as 5s or 1m; 0 for no limit", "10s", _timeout
    )
