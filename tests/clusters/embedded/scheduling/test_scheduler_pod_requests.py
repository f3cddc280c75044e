from __future__ import annotations

from typing import Any

import pytest

from clusters.embedded.scheduling.scheduler_pod_requests import full_name, is_gated, is_terminal, node_of, requests_of
from tests.clusters.embedded.scheduling.scheduling_objects import MEMORY, make_pod


def container(units: int, **more: Any) -> dict[str, Any]:
    return {"name": "c", "image": "none", "resources": {"requests": {MEMORY: str(units)}}, **more}


ALWAYS = {"restartPolicy": "Always"}


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
    pod = make_pod(
        initContainers=[container(each, **more) for each, more in init], containers=[container(each) for each in main]
    )

    assert {MEMORY: units} == requests_of(pod)


def test_requests_of_a_limit_without_request_is_the_limit() -> None:
    """As the API server writes it into the pod."""
    pod = make_pod(containers=[{"resources": {"limits": {"cpu": "2", MEMORY: "3"}, "requests": {"cpu": "1"}}}])

    assert {"cpu": 1000, MEMORY: 3} == requests_of(pod)


def test_requests_of_overhead_is_added() -> None:
    """The overhead of a runtime class counts beside the containers."""
    assert {"cpu": 1250} == requests_of(make_pod(limits={"cpu": "1"}, overhead={"cpu": "250m"}))


def test_predicates_of_a_pod() -> None:
    """Name, gates, end and node are read from the pod."""
    pod = make_pod(schedulingGates=[{"name": "x"}])

    assert "default/p1" == full_name(pod)
    assert is_gated(pod)
    assert not is_terminal(pod)
    assert "" == node_of(pod)
    assert is_terminal({**pod, "status": {"phase": "Failed"}})
