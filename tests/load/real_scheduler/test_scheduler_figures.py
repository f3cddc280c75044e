"""Time that programs say they have spent, read from their pages."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Histogram, generate_latest

from load.real_scheduler.scheduler_figures import Spent, spent


def page(name: str, label: str, times: dict[str, list[float]]) -> str:
    """As a program shows it, by the official client."""
    registry = CollectorRegistry()
    histogram = Histogram(name, "time", [label] if label else [], buckets=(0.1, 0.2, 0.4), registry=registry)
    Histogram("something_else_seconds", "time", registry=registry).observe(7)
    for value, seconds in times.items():
        for one in seconds:
            (histogram.labels(value) if label else histogram).observe(one)
    return generate_latest(registry).decode()


def test_times_are_read_from_the_pages_of_programs() -> None:
    """Each by its label, if it has one; the rest of a page counts for no time.

    Percentiles are evenly spread within their bucket; of the last bucket, which has no end, its beginning.
    """
    ours = page("gpushare_extender_request_duration_seconds", "verb", {"filter": [0.15] * 4, "bind": [3.0]})
    about: Any = pytest.approx
    assert spent(ours) == {
        "gpushare filter": Spent(4, about(0.15), about(0.15), about(0.199)),
        "gpushare bind": Spent(1, about(3.0), 0.4, 0.4),
    }
    attempts = page("scheduler_scheduling_attempt_duration_seconds", "result", {"scheduled": [0.05]})
    algorithm = page("scheduler_scheduling_algorithm_duration_seconds", "", {"": [0.3, 0.3]})
    plugins = page(
        "scheduler_framework_extension_point_duration_seconds", "extension_point", {"Bind": [0.1], "Score": []}
    )
    assert {name: one.count for name, one in spent(attempts + algorithm + plugins).items()} == {
        "scheduler: attempt scheduled": 1,
        "scheduler: choosing a node": 2,
        "scheduler: plugins Bind": 1,
    }
    assert spent("") == {}
