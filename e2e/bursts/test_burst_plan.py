"""A burst follows from its seed, and keeps its rules."""

from __future__ import annotations

import pytest

from e2e.bursts.burst_plan import FEWEST_PODS, MOST_PODS, PARTS, Burst, make_burst
from e2e.bursts.burst_stage import BURSTS_OF_A_WORLD, Venue, smallest
from e2e.bursts.world import units_of_model
from e2e.checkers.pod_requests import gpu_containers, units_of

NODES = {"a": {0: 14, 1: 14}, "b": {0: 14, 1: 10}}
BURSTS = [make_burst(f"test/{number}", NODES) for number in range(300)]


def test_the_same_seed_is_the_same_burst() -> None:
    """A seed gives the same burst each time, so a burst that failed can be played again."""
    assert BURSTS[:20] == [make_burst(f"test/{number}", NODES) for number in range(20)]
    assert len({burst.steps for burst in BURSTS}) == len(BURSTS)


@pytest.mark.parametrize("burst", BURSTS[:50], ids=lambda burst: burst.seed)
def test_a_burst_has_2_to_40_pods_of_few_containers(burst: Burst) -> None:
    """No pod is deleted that was not created before, and none twice."""
    created: set[str] = set()
    for step in burst.steps:
        assert created.issuperset(step.delete)
        created -= set(step.delete)
        created |= {pod.name for pod in step.create}

    assert created == set(burst.staying)
    assert FEWEST_PODS <= len(burst.staying | dict.fromkeys(burst.deleted)) <= MOST_PODS
    assert all(1 <= len(pod.containers) <= 4 for pod in burst.staying.values())


def test_bursts_have_everything_that_they_are_for() -> None:
    """All that may be left out, at least once; what is left out is not there, and the rest is as before."""
    for part in PARTS:
        assert any(burst.without(part).steps != burst.steps for burst in BURSTS)
    for burst in BURSTS[:20]:
        one, *_, last = burst.made
        less = make_burst(f"{burst.seed}-{one}-{last}", NODES)
        assert {*less.made} == {*burst.made} - {one, last}
        assert make_burst(f"{burst.seed}-gaps", NODES).steps == burst.without("gaps").steps
    restarts = {step.restart_kubelet for burst in BURSTS for step in burst.steps}
    assert restarts == {step.restart_plugin for burst in BURSTS for step in burst.steps} == {"", *NODES}
    twins = [burst for burst in BURSTS if len({pod.containers for pod in burst.made.values()}) == 1]
    assert len(BURSTS) / 10 < len(twins) < len(BURSTS) / 2


def test_on_real_nodes_a_burst_has_what_these_can_do() -> None:
    """No gap, nothing of another program, no lost node."""
    for burst in [make_burst(f"real/{number}", NODES, is_real=True) for number in range(50)]:
        assert burst.without("gaps", "extender", "lost", "marks", "urgent", "ends").steps == burst.steps


def test_a_manifest_says_what_the_plan_says() -> None:
    """Every container holds what it asks for."""
    pod = next(pod for burst in BURSTS for pod in burst.made.values() if len(pod.inits) > 1 and pod.is_marked)
    manifest = pod.manifest("-r1")

    assert manifest["metadata"]["name"] == f"{pod.called or pod.name}-r1"
    asked = [units for units in (*(units for units, _ in pod.inits), *pod.containers) if units]
    assert [one.units for one in gpu_containers(manifest)] == asked
    started, most = 0, 0
    for units, is_sidecar in pod.inits:
        most, started = max(most, started + units), started + units * is_sidecar
    assert units_of(manifest) == max(most, started + sum(pod.containers))


def test_worlds_have_boxes_of_1_to_16_cards_of_mixed_sizes() -> None:
    """Each third one has more than eight; the bursts of one world have the same."""
    worlds = [Venue().world(f"7/{number}") for number in range(180)]
    counts = [{len(node.models) for node in world} for world in worlds]
    sizes = [{units_of_model(model, node.driver) for model in node.models} for world in worlds for node in world]

    assert worlds[:BURSTS_OF_A_WORLD] == [worlds[0]] * BURSTS_OF_A_WORLD != worlds[BURSTS_OF_A_WORLD:][:3]
    assert sum(max(of) > 8 for of in counts) == len(worlds) / 3
    assert (min(map(min, counts)), max(map(max, counts))) == (1, 16)
    assert min(map(min, sizes)) > 0
    assert max(map(len, sizes)) > 1
    assert Venue(is_real=True).world("7/1") == ()


async def test_a_burst_that_fails_is_made_smaller() -> None:
    """To the parts that it fails without none of."""
    burst = next(burst for burst in BURSTS if len(burst.made) > 20)
    guilty = {*list(burst.made)[3:5], "gaps"}

    async def fails(less: Burst) -> bool:
        return guilty.isdisjoint(less.seed.split("-"))

    least = await smallest(burst, fails)
    assert {*burst.parts} - {*least.seed.split("-")} == guilty
