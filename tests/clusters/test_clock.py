"""Promises of clusters.clock."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest

from clusters.clock import Clock


def test_a_fast_clock_runs_ahead() -> None:
    """A fast clock runs ahead as many times as configured, in its time and in its monotonic count."""
    clock = Clock(1e6)
    began, at = clock.monotonic(), clock.now()
    start = time.monotonic()
    passed = time.monotonic() - start
    assert clock.monotonic() - began >= passed * 1e6
    assert clock.now() - at >= timedelta(seconds=passed * 1e6)
    assert clock.timestamp() >= at.timestamp()


@pytest.mark.parametrize("factor", [0, -1, float("nan")])
def test_time_goes_forward(factor: float) -> None:
    """A factor that would stop it is refused."""
    with pytest.raises(ValueError, match="forward"):
        Clock(factor)
