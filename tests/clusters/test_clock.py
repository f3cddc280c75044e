"""Promises of clusters.clock."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest

from clusters.clock import Clock


def test_it_begins_at_the_machines_time() -> None:
    """A clock begins at the machine's time and is as fast as the machine's by default."""
    assert abs(Clock().now() - datetime.now(UTC)) < timedelta(seconds=5)
    assert Clock().real(7.5) == 7.5


def test_a_fast_clock_runs_ahead() -> None:
    """A fast clock runs ahead as many times as configured, in its time and in its monotonic count."""
    clock = Clock(1e6)
    began, at = clock.monotonic(), clock.now()
    start = time.monotonic()
    passed = time.monotonic() - start
    assert clock.monotonic() - began >= passed * 1e6
    assert clock.now() - at >= timedelta(seconds=passed * 1e6)
    assert clock.timestamp() >= at.timestamp()


def test_waits_are_shorter_in_a_fast_one() -> None:
    """Five minutes at sixty times are five seconds."""
    assert Clock(60).real(300) == 5


@pytest.mark.parametrize("factor", [0, -1, float("nan")])
def test_time_goes_forward(factor: float) -> None:
    """A factor that would stop it is refused."""
    with pytest.raises(ValueError, match="forward"):
        Clock(factor)
