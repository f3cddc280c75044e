"""Our conditions of a node, and the times of conditions. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from gpushare import wire
from gpushare.manifests import NodeCondition, ReportedNode

# A condition that has not changed is written again after this, in seconds: it shows that its writer lives.
HEARTBEAT_SECONDS: Final = 600.0
# The reason of the condition of a node that shares no card.
NO_CARDS: Final = "NoCards"


def healthy_condition(node: ReportedNode) -> NodeCondition | None:
    """The condition ``GPUShareHealthy``, if the node's device plugin writes one."""
    return condition_of(node, wire.CONDITION_HEALTHY)


def condition_of(node: ReportedNode, name: str) -> NodeCondition | None:
    """The condition of this type, if there is one."""
    conditions = (node.status.conditions if node.status else None) or ()
    return next((one for one in conditions if one.type == name), None)


def heartbeat_age(condition: NodeCondition, now: float) -> float | None:
    """How long ago its writer lived, in seconds; None if that cannot be read. ``now`` is in seconds since 1970."""
    at = seconds_of(condition.last_heartbeat_time)
    return None if at is None else now - at


def seconds_of(text: str | None) -> float | None:
    """A time of the API in seconds since 1970; None if there is none, or if it cannot be read."""
    try:
        at = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return None if at.tzinfo is None else at.timestamp()


def time_text(seconds: int) -> str:
    """A time in seconds since 1970, as Kubernetes writes it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
