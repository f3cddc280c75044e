"""Our conditions of a node, and the times of conditions. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from gpushare import wire
from gpushare.bounds import MESSAGE_KEPT
from gpushare.manifests import Node, NodeCondition, ReportedNode

# A condition that has not changed is written again after this, in seconds: it shows that its writer lives.
HEARTBEAT_SECONDS: Final = 600.0
# The reason of the condition of a node that shares no card.
NO_CARDS: Final = "NoCards"
# The reasons of the condition about limits while each card of the node can limit.
ENFORCED: Final = "Enforced"
SOME_NOT_LIMITED: Final = "SomeNotLimited"
NOT_VERIFIED: Final = "NotVerified"


def healthy_condition(node: ReportedNode) -> NodeCondition | None:
    """The condition ``GPUShareHealthy``, if the node's device plugin writes one."""
    return condition_of(node, wire.CONDITION_HEALTHY)


def condition_of(node: ReportedNode, name: str) -> NodeCondition | None:
    """The condition of this type, if there is one."""
    conditions = (node.status.conditions if node.status else None) or ()
    return next((one for one in conditions if one.type == name), None)


def answers_limits(node: ReportedNode) -> bool:
    """Does the node's device plugin have the driver limit new containers to their share of any card?"""
    condition = condition_of(node, wire.CONDITION_LIMITS)
    return condition is not None and condition.reason in (ENFORCED, SOME_NOT_LIMITED, NOT_VERIFIED)


def not_limited(node: Node) -> str:
    """The condition about limits if it is not True; "" if it is, if there is none, or if the node was read without conditions.

    A device plugin that has ended gives both conditions one reason, and the one about health has it already.
    """
    if not isinstance(node, ReportedNode) or (condition := condition_of(node, wire.CONDITION_LIMITS)) is None:
        return ""
    health = healthy_condition(node)
    if condition.status == "True" or (health is not None and health.reason == condition.reason):
        return ""
    text = f"{condition.type} is {condition.status} ({condition.reason}): {condition.message}"
    return text[: MESSAGE_KEPT.most]


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
