"""A burst follows from its seed, and keeps its rules."""

from __future__ import annotations

from e2e.bursts.burst_plan import PARTS, make_burst
from e2e.bursts.burst_stage import BURSTS_OF_A_WORLD, Venue
from e2e.bursts.world import units_of_model

NODES = {"a": {0: 14, 1: 14}, "b": {0: 14, 1: 10}}
BURSTS = [make_burst(f"test/{number}", NODES) for number in range(300)]


def test_the_same_seed_is_the_same_burst() -> None:
    """A seed gives the same burst each time, so a burst that failed can be played again."""
    assert BURSTS[:20] == [make_burst(f"test/{number}", NODES) for number in range(20)]
    assert len({burst.steps for burst in BURSTS}) == len(BURSTS)


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


def test_a_container_without_a_card_holds_none_of_one() -> None:
    """A plain container of a greedy pod would end for want of a card."""
    pods = [pod for burst in BURSTS for pod in burst.made.values() if pod.is_greedy and not all(pod.containers)]
    plain = [
        {one["name"]: one["value"] for one in container["env"]}["SIMULATED_HOLDS_MIB"]
        for pod in pods
        for container, units in zip(pod.manifest()["spec"]["containers"], pod.containers, strict=True)
        if not units
    ]

    assert {*plain} == {"0"}


def test_worlds_have_boxes_of_1_to_16_cards_of_mixed_sizes() -> None:
    """Each third one has more than eight; the bursts of one world have the same."""
    worlds = [Venue().world(f"7/{number}").nodes for number in range(180)]
    counts = [{len(node.models) for node in world} for world in worlds]
    sizes = [{units_of_model(model, node.driver) for model in node.models} for world in worlds for node in world]

    assert worlds[:BURSTS_OF_A_WORLD] == [worlds[0]] * BURSTS_OF_A_WORLD != worlds[BURSTS_OF_A_WORLD:][:3]
    assert sum(max(of) > 8 for of in counts) == len(worlds) / 3
    assert (min(map(min, counts)), max(map(max, counts))) == (1, 16)
    assert min(map(min, sizes)) > 0
    assert max(map(len, sizes)) > 1
    assert Venue(is_real=True).world("7/1").nodes == ()
