"""Promises of the replay: the published protocol, no pod beyond the cluster's cards, and the same again for the same seed."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare import wire
from load.replay.extender_replay import Step, arrivals, expected_of, ratios, replay
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
    assert not Counter(pods[: len(sizes)]) - Counter(trace.pods)


def test_another_seed_is_another_order() -> None:
    """The whole list comes before any pod comes again."""
    trace = read(SAMPLE, "default")
    first, second = arrivals(trace, 1), arrivals(trace, 2)

    assert first != second
    assert len({pod.name for pod in first[: len(trace.pods)]}) == min(len(first), len(trace.pods))


@pytest.fixture(scope="module", params=wire.POLICIES)
def steps(request: pytest.FixtureRequest) -> list[Step]:
    """A replay of the sample under each policy."""
    trace = read(SAMPLE, "default")
    return list(replay(trace, arrivals(trace, 3), request.param, 3, None))


def test_no_machine_is_over_committed(steps: list[Step]) -> None:
    """CPU, memory and each card of each machine; several cards are whole ones; models are those that were wished for."""
    nodes = {node.name: node for node in read(SAMPLE, "default").nodes}
    cards: dict[tuple[str, int], int] = defaultdict(int)
    cpu: dict[str, int] = defaultdict(int)
    memory: dict[str, int] = defaultdict(int)
    for step in steps:
        if not step.node:
            continue
        cpu[step.node] += step.pod.cpu_milli
        memory[step.node] += step.pod.memory_mib
        assert [units for _, units in step.shares] == [step.pod.units] * step.pod.cards
        assert not step.pod.models or nodes[step.node].cards[0].model in step.pod.models
        for index, units in step.shares:
            cards[step.node, index] += units

    assert all(used <= CARD_UNITS for used in cards.values())
    assert all(index < len(nodes[name].cards) for name, index in cards)
    assert all(used <= nodes[name].cpu_milli for name, used in cpu.items())
    assert all(used <= nodes[name].memory_mib for name, used in memory.items())
    assert sum(cards.values()) == steps[-1].allocated > 0


def test_who_fits_somewhere_is_placed(steps: list[Step]) -> None:
    """A pod that was passed over fitted on no machine at that moment, by a count of our own."""
    trace = read(SAMPLE, "default")
    left = {node.name: [card.units for card in node.cards] for node in trace.nodes}
    cpu = {node.name: node.cpu_milli for node in trace.nodes}
    memory = {node.name: node.memory_mib for node in trace.nodes}
    for step in steps:
        pod = step.pod
        fits = [
            node.name
            for node in trace.nodes
            if cpu[node.name] >= pod.cpu_milli
            and memory[node.name] >= pod.memory_mib
            and sum(free >= pod.units for free in left[node.name]) >= pod.cards
            and (not pod.models or not pod.cards or node.cards[0].model in pod.models)
        ]
        assert bool(fits) == bool(step.node)
        if step.node:
            cpu[step.node] -= pod.cpu_milli
            memory[step.node] -= pod.memory_mib
            for index, units in step.shares:
                left[step.node][index] -= units
    assert any(not step.node for step in steps)


def test_the_ratio_is_what_is_allocated_once_so_much_has_come() -> None:
    """The part of all cards, in percent; before the first pod nothing is allocated."""
    trace = a_trace(shares_a_card(1000), cards=2)
    steps = [
        Step(trace.pods[0], arrived, allocated) for arrived, allocated in ((1000, 1000), (2000, 1500), (2600, 1600))
    ]

    assert ratios(trace, steps, [0.4, 0.5, 1.0, 1.2, 1.3]) == [0, 50, 75, 75, 80]


def test_the_same_seed_is_the_same_replay() -> None:
    """To the card."""
    trace = read(SAMPLE, "default")
    pods, expected = arrivals(trace, 4), expected_of(trace)
    once, again = (list(replay(trace, pods, wire.POLICY_FRAGMENTATION, 4, expected)) for _ in range(2))

    assert once == again
