"""Promises of gpushare.model.conditions."""

from __future__ import annotations

import time

import msgspec
import pytest

from gpushare.manifests import NodeCondition, ReportedNode
from gpushare.model.conditions import healthy_condition, heartbeat_age, time_text


def test_condition_of_a_node_is_ours_alone() -> None:
    """A node with a kubelet's conditions alone, or without a status, has none."""
    ready, ours = {"type": "Ready", "status": "True"}, {"type": "GPUShareHealthy", "status": "False"}
    node = msgspec.convert({"status": {"conditions": [ready, ours]}}, ReportedNode)
    kubelets = msgspec.convert({"status": {"conditions": [ready]}}, ReportedNode)

    assert healthy_condition(node) == NodeCondition("GPUShareHealthy", "False")
    assert healthy_condition(kubelets) is healthy_condition(ReportedNode()) is None


@pytest.mark.parametrize(
    ("text", "age"),
    [("1970-01-01T00:01:40Z", 500.0), ("1970-01-01T00:01:40", None), ("soon", None), (None, None), ("", None)],
)
def test_age_of_a_heartbeat_is_read_or_not_known(text: str | None, age: float | None) -> None:
    """A time without its zone could be any."""
    assert heartbeat_age(NodeCondition(last_heartbeat_time=text), 600.0) == age


def test_a_time_is_written_in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the zone of the machine is."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "XXX-5")
        time.tzset()
        assert time_text(100) == "1970-01-01T00:01:40Z"
    time.tzset()
