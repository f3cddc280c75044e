"""Kubernetes quantities."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from clusters.amounts import amount_of, amounts_of, is_extended_resource, requests_of

MEMORY = "aliyun.com/gpu-mem"
ALWAYS = {"restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("14", 14),
        ("500m", Fraction(1, 2)),
        ("1.5Ki", 1536),
        ("10k", 10_000),
        ("1e3", 1000),
        ("3E2", 300),
        ("2E", 2 * 10**18),
        ("100n", Fraction(1, 10**7)),
    ],
)
def test_quantities_are_read(text: str, amount: Fraction) -> None:
    """Every suffix of Kubernetes is exact."""
    assert amount_of(text) == amount


@pytest.mark.parametrize("text", ["", "GiB", "1 Gi", "1KI", "0x10", "--1", "1.2.3", "1e"])
def test_other_texts_are_refused(text: str) -> None:
    """The error names resource and text."""
    with pytest.raises(ValueError, match="memory: .* is not a quantity"):
        amounts_of({"memory": text})


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


@pytest.mark.parametrize(
    ("name", "extended"),
    [
        (MEMORY, True),
        ("cpu", False),
        ("kubernetes.io/x", False),
        ("x.kubernetes.io/gpu", False),
        ("requests.aliyun.com/gpu-mem", False),
        ("aliyun.com/", False),
        ("ALIYUN.com/gpu", False),
    ],
)
def test_extended_resources_have_a_domain_of_their_own(name: str, extended: bool) -> None:
    """Kubernetes' own domains, and the prefix of quotas, are none."""
    assert is_extended_resource(name) is extended
