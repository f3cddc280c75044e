"""Kubernetes quantities."""

from __future__ import annotations

from typing import Any

import pytest

from clusters.amounts import amounts_of, requests_of

MEMORY = "aliyun.com/gpu-mem"
ALWAYS = {"restartPolicy": "Always"}


def test_amounts_are_counted_as_the_scheduler_does() -> None:
    """The cpu is counted in thousandths and the rest in whole units, rounded up; a missing map counts as empty."""
    counted = {"cpu": 100, "memory": 1536, MEMORY: 2}

    assert amounts_of({"cpu": "0.1", "memory": "1.5Ki", MEMORY: "1500m"}) == counted
    assert amounts_of({"cpu": 1}) == {"cpu": 1000}
    assert amounts_of(None) == {}


def container(units: int, **more: Any) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": {MEMORY: str(units)}}, **more}


@pytest.mark.parametrize(
    ("init", "main", "units"),
    [
        ([], [2, 3], 5),
        ([(4, {})], [3], 4),
        ([(2, {}), (7, {}), (1, {})], [3], 7),
        ([(2, ALWAYS)], [3], 5),
        ([(2, ALWAYS), (4, {})], [3], 6),
        ([(4, {}), (2, ALWAYS)], [3], 5),
        ([(2, ALWAYS), (1, {}), (2, ALWAYS), (9, {})], [3], 13),
    ],
    ids=["sum", "init-larger", "init-largest", "sidecar", "init-after-sidecar", "init-before-sidecar", "all"],
)
def test_requests_of_init_containers_and_sidecars(init: list[Any], main: list[int], units: int) -> None:
    """Ordinary init containers count by their largest, beside the sidecars started before; sidecars add to the rest."""
    inits = [container(each, **more) for each, more in init]

    assert requests_of({"spec": {"initContainers": inits, "containers": [container(each) for each in main]}}) == {
        MEMORY: units
    }


def test_limits_without_requests_and_overhead_count() -> None:
    """The API server writes such a limit into the requests; the overhead of a runtime class is added."""
    resources = {"limits": {"cpu": "2", MEMORY: "3"}, "requests": {"cpu": "1"}}
    spec = {"containers": [{"resources": resources}], "overhead": {"cpu": "250m"}}

    assert requests_of({"spec": spec}) == {"cpu": 1250, MEMORY: 3}
