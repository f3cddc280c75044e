"""A burst follows from its seed, and keeps its rules."""

from __future__ import annotations

import pytest

from e2e.bursts.burst_plan import FEWEST_PODS, MOST_PODS, Burst, make_burst
from e2e.checkers.pod_requests import gpu_containers, units_of

NODES = ("a", "b")
BURSTS = [make_burst(f"test/{number}", NODES) for number in range(300)]


def test_the_same_seed_is_the_same_burst() -> None:
    """A seed gives the same burst each time, so a burst that failed can be played again."""
    assert BURSTS[:20] == [make_burst(f"test/{number}", NODES) for number in range(20)]
    assert len({burst.steps for burst in BURSTS}) == len(BURSTS)


@pytest.mark.parametrize("burst", BURSTS[:50], ids=lambda burst: burst.seed)
def test_a_burst_has_2_to_40_pods_of_1_to_3_containers(burst: Burst) -> None:
    """No pod is deleted that was not created before, and none twice."""
    created: set[str] = set()
    for step in burst.steps:
        assert created.issuperset(step.delete)
        created -= set(step.delete)
        created |= {pod.name for pod in step.create}

    assert created == set(burst.staying)
    assert FEWEST_PODS <= len(burst.staying | dict.fromkeys(burst.deleted)) <= MOST_PODS
    assert all(1 <= len(pod.containers) <= 3 for pod in burst.staying.values())


def test_bursts_have_everything_that_they_are_for() -> None:
    """Deletions, restarts of both kinds, init containers, sidecars, and many pods that ask for the same."""
    steps = [step for burst in BURSTS for step in burst.steps]
    pods = [pod for step in steps for pod in step.create]

    assert any(step.delete for step in steps)
    assert {step.restart_plugin for step in steps} == {step.restart_kubelet for step in steps} == {"", *NODES}
    assert any(pod.init for pod in pods)
    assert any(pod.sidecar for pod in pods)
    twins = [burst for burst in BURSTS if len({pod.containers for pod in burst.staying.values()}) < len(burst.staying)]
    assert len(twins) > len(BURSTS) / 2


def test_a_manifest_says_what_the_plan_says() -> None:
    """Every container holds what it asks for."""
    pod = next(pod for burst in BURSTS for step in burst.steps for pod in step.create if pod.init and pod.sidecar)
    manifest = pod.manifest("-r1")

    assert manifest["metadata"]["name"] == f"{pod.name}-r1"
    assert [one.units for one in gpu_containers(manifest)] == [pod.init, pod.sidecar, *pod.containers]
    assert units_of(manifest) == max(pod.init, pod.sidecar + sum(pod.containers))
