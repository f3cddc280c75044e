"""Promises of the replay: the published protocol, no pod beyond the cluster's cards, and the same again for the same seed."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare import wire
from load.replay.extender_replay import Step, arrivals, ratios, replay
from load.replay.trace import CARD_UNITS, SAMPLE, Card, Trace, TraceNode, TracePod, read


def a_trace(*pods: TracePod, cards: int = 10) -> Trace:
    """One machine."""
    return Trace("made", (TraceNode("n", 10**6, 10**6, (Card(CARD_UNITS, "T4"),) * cards),), pods)


def shares_a_card(units: int, number: int = 0) -> TracePod:
    return TracePod(f"p{number}", 1, 1, 1, units, ())


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=40), st.integers(0, 5), st.integers(1, 8))
def test_as_many_come_as_ask_for_the_part(sizes: list[int], seed: int, cards: int) -> None:
    """Topped up until the next would pass it, or cut until no more than that is left; the same pods for the same seed."""
    trace = a_trace(*(shares_a_card(units, number) for number, units in enumerate(sizes)), cards=cards)
    pods = arrivals(trace, seed)
    asked, most = sum(pod.demand for pod in pods), trace.capacity * 1.3

    assert most - 1000 <= asked <= most
    assert pods == arrivals(trace, seed)
    # The whole list comes before any pod comes again.
    assert not Counter(pods[: len(sizes)]) - Counter(trace.pods)


@pytest.fixture(scope="module", params=wire.POLICIES)
def steps(request: pytest.FixtureRequest) -> list[Step]:
    """A replay of the sample under each policy."""
    trace = read(SAMPLE, "default")
    return list(replay(trace, arrivals(trace, 3), request.param, 3, None))


def test_a_pod_is_placed_where_it_fits_and_nowhere_else(steps: list[Step]) -> None:
    """By a count of our own: CPU, memory and each card of each machine; several cards are whole ones, of models that were wished.

    A pod that was passed over fitted on no machine at that moment.
    """
    trace = read(SAMPLE, "default")
    nodes = {node.name: node for node in trace.nodes}
    left = {node.name: [card.units for card in node.cards] for node in trace.nodes}
    rooms = {node.name: (node.cpu_milli, node.memory_mib) for node in trace.nodes}
    for step in steps:
        pod = step.pod
        fits = {
            name
            for name, node in nodes.items()
            if rooms[name][0] >= pod.cpu_milli
            and rooms[name][1] >= pod.memory_mib
            and sum(free >= pod.units for free in left[name]) >= pod.cards
            and (not pod.models or not pod.cards or node.cards[0].model in pod.models)
        }
        assert step.node in fits if fits else not step.node
        if step.node:
            cpu, memory = rooms[step.node]
            rooms[step.node] = cpu - pod.cpu_milli, memory - pod.memory_mib
            assert [units for _, units in step.shares] == [pod.units] * pod.cards
            for index, units in step.shares:
                left[step.node][index] -= units
                assert left[step.node][index] >= 0
    assert any(not step.node for step in steps)
    assert sum(units for step in steps for _, units in step.shares) == steps[-1].allocated > 0


def test_the_ratio_is_what_is_allocated_once_so_much_has_come() -> None:
    """The part of all cards, in percent; before the first pod nothing is allocated."""
    trace = a_trace(shares_a_card(1000), cards=2)
    steps = [
        Step(trace.pods[0], arrived, allocated) for arrived, allocated in ((1000, 1000), (2000, 1500), (2600, 1600))
    ]

    assert ratios(trace, steps, [0.4, 0.5, 1.0, 1.2, 1.3]) == [0, 50, 75, 75, 80]
