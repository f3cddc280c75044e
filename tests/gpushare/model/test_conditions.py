"""Promises of gpushare.model.conditions."""

from __future__ import annotations

import time

import msgspec
import pytest

from gpushare.manifests import Node, NodeCondition, ReportedNode
from gpushare.model.conditions import (
    answers_limits,
    heartbeat_age,
    not_limited,
    time_text,
)


@pytest.mark.parametrize(
    ("text", "age"),
    [("1970-01-01T00:01:40Z", 500.0), ("1970-01-01T00:01:40", None), ("soon", None), (None, None), ("", None)],
)
def test_age_of_a_heartbeat_is_read_or_not_known(text: str | None, age: float | None) -> None:
    """A time without its zone could be any."""
    assert heartbeat_age(NodeCondition(last_heartbeat_time=text), 600.0) == age


@pytest.mark.parametrize(
    ("status", "reason", "health", "text", "answers"),
    [
        ("True", "Enforced", "AllHealthy", "", True),
        ("False", "SomeNotLimited", "AllHealthy", "GPUShareMemoryLimits is False (SomeNotLimited): why", True),
        ("Unknown", "NotVerified", None, "GPUShareMemoryLimits is Unknown (NotVerified): why", True),
        ("False", "DriverTooOld", None, "GPUShareMemoryLimits is False (DriverTooOld): why", False),
        ("Unknown", "Ended", "Ended", "", False),
    ],
)
def test_a_node_shows_why_it_does_not_limit(
    status: str, reason: str, health: str | None, text: str, answers: bool
) -> None:
    """The condition of a device plugin that has ended is left to the one about health."""
    limits = {"type": "GPUShareMemoryLimits", "status": status, "reason": reason, "message": "why"}
    conditions = [{"type": "Ready", "status": "True"}, limits]
    conditions += [{"type": "GPUShareHealthy", "status": "True", "reason": health}] if health else []
    node = msgspec.convert({"status": {"conditions": conditions}}, ReportedNode)

    assert (not_limited(node), answers_limits(node)) == (text, answers)


def test_a_node_without_the_condition_is_no_node_that_fails() -> None:
    """It may have been read without conditions; its text has a bound."""
    limits = {"type": "GPUShareMemoryLimits", "status": "False", "message": "x" * 9000}

    assert (not_limited(Node()), not_limited(ReportedNode()), answers_limits(ReportedNode())) == ("", "", False)
    assert len(not_limited(msgspec.convert({"status": {"conditions": [limits]}}, ReportedNode))) == 4096


def test_a_time_is_written_in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the zone of the machine is."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "XXX-5")
        time.tzset()
        assert time_text(100) == "1970-01-01T00:01:40Z"
    time.tzset()
