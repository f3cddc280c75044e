"""One scheduling cycle of the embedded scheduler."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from clusters.embedded.scheduling.cluster_view import ClusterView
from clusters.embedded.scheduling.configuration import Configuration, ExtenderConfiguration, ManagedResource, Profile
from clusters.embedded.scheduling.cycle import SchedulingCycle
from clusters.embedded.scheduling.extender_client import ExtenderClient, ExtenderError
from clusters.embedded.scheduling.fit import EXTENDER, NODE_RESOURCES_FIT, FitError
from e2e.parity.recording_extender import Answer, Call, RecordingExtender
from tests.clusters.embedded.scheduling.scheduling_objects import MEMORY, make_node, make_pod

CycleOf = Callable[..., SchedulingCycle]

POD = make_pod(limits={MEMORY: "2"})
REASON = "Insufficient GPU Memory in one device"


@pytest.fixture
async def extender() -> AsyncIterator[RecordingExtender]:
    async with RecordingExtender() as local:
        yield local


@pytest.fixture
async def other() -> AsyncIterator[RecordingExtender]:
    async with RecordingExtender() as local:
        yield local


def at(local: RecordingExtender, **fields: Any) -> ExtenderConfiguration:
    return ExtenderConfiguration(
        url_prefix=local.url, **{"filter_verb": "filter", "node_cache_capable": True, **fields}
    )


def cards(count: int, units: int = 10) -> list[dict[str, Any]]:
    return [make_node(f"n{number}", {MEMORY: str(units)}) for number in range(count)]


@pytest.fixture
async def cycle_of() -> AsyncIterator[CycleOf]:
    """Makes cycles over a cluster of the given nodes; closes their clients."""
    clients: list[ExtenderClient] = []

    def make(nodes: list[dict[str, Any]], *extenders: ExtenderConfiguration) -> SchedulingCycle:
        view = ClusterView()
        for node in nodes:
            view.set_node(node)
        configuration = Configuration(extenders=extenders)
        own = [ExtenderClient(each) for each in configuration.extenders_in_order]
        clients.extend(own)
        return SchedulingCycle(configuration, own, view, random.Random(1))

    yield make
    for client in clients:
        await client.close()


def asked(local: RecordingExtender, verb: str = "filter") -> list[list[str]]:
    return [call.message["NodeNames"] for call in local.calls if call.verb == verb]


def refusing(*refused: str, unresolvable: bool = False) -> Any:
    async def respond(call: Call) -> Answer:
        names = [name for name in call.message["NodeNames"] if name not in refused]
        key = "FailedAndUnresolvableNodes" if unresolvable else "FailedNodes"
        words = dict.fromkeys(set(call.message["NodeNames"]) - set(names), REASON)
        return Answer({"NodeNames": names, key: words, "Error": ""})

    return respond


async def test_only_nodes_with_enough_in_total_reach_the_extender(
    cycle_of: CycleOf, extender: RecordingExtender
) -> None:
    """The extender is asked about nodes without cards only if its resource has ignoredByScheduler."""
    nodes = [*cards(2), make_node("plain")]

    await cycle_of(nodes, at(extender)).place(POD, Profile())
    ignoring = at(extender, managed_resources=(ManagedResource(name=MEMORY, ignored_by_scheduler=True),))
    await cycle_of(nodes, ignoring).place(POD, Profile())

    assert [["n0", "n1"], ["n0", "n1", "plain"]] == asked(extender)


async def test_all_refused_gives_reasons_and_rejectors(cycle_of: CycleOf, extender: RecordingExtender) -> None:
    """The error counts the nodes of each reason, and names the filters that refused."""
    extender.respond = refusing("n0", "n1")

    with pytest.raises(FitError) as caught:
        await cycle_of([*cards(2), make_node("plain")], at(extender)).place(POD, Profile())

    assert str(caught.value) == f"0/3 nodes are available: 1 Insufficient {MEMORY}, 2 {REASON}."
    assert {EXTENDER, NODE_RESOURCES_FIT} == caught.value.rejectors


@pytest.mark.parametrize("unresolvable", [True, False])
async def test_a_refusal_tells_what_eviction_could_cure(
    cycle_of: CycleOf, extender: RecordingExtender, unresolvable: bool
) -> None:
    """FailedNodes can be cured by an eviction, FailedAndUnresolvableNodes cannot."""
    extender.respond = refusing("n0", unresolvable=unresolvable)

    with pytest.raises(FitError) as caught:
        await cycle_of(cards(1), at(extender)).place(POD, Profile())

    assert unresolvable is not caught.value.diagnosis.rejections["n0"].resolvable


async def test_extenders_are_asked_in_turn_ignorable_ones_last(
    cycle_of: CycleOf, extender: RecordingExtender, other: RecordingExtender
) -> None:
    """Each extender gets the nodes that the one before let through."""
    extender.respond = refusing("n0")
    other.respond = refusing("n1")
    configuration = [at(other, ignorable=True), at(extender)]

    assert await cycle_of(cards(3), *configuration).place(POD, Profile()) == "n2"
    assert [["n0", "n1", "n2"]] == asked(extender)
    assert [["n1", "n2"]] == asked(other)


async def test_a_failing_extender_fails_the_cycle_unless_ignorable(
    cycle_of: CycleOf, extender: RecordingExtender
) -> None:
    """An ignorable extender that fails refuses no node."""

    async def broken(call: Call) -> Answer:
        return Answer({}, status=500)

    extender.respond = broken

    with pytest.raises(ExtenderError, match="code 500"):
        await cycle_of(cards(1), at(extender)).place(POD, Profile())
    assert await cycle_of(cards(1), at(extender, ignorable=True)).place(POD, Profile()) == "n0"


async def test_the_window_rotates(cycle_of: CycleOf, extender: RecordingExtender) -> None:
    """120 of 250 nodes are asked about (48 %), and the next cycle goes on at the end of the search."""
    cycle = cycle_of(cards(250), at(extender))

    for _ in range(3):
        await cycle.place(POD, Profile())

    expected = [[f"n{(start + offset) % 250}" for offset in range(120)] for start in (0, 120, 240)]
    assert expected == asked(extender)


def scoring(scores: dict[str, int]) -> Any:
    async def respond(call: Call) -> Answer:
        if call.verb == "filter":
            return Answer({"NodeNames": call.message["NodeNames"]})
        return Answer([{"Host": name, "Score": score} for name, score in scores.items()])

    return respond


async def test_the_extender_s_score_decides_between_equal_nodes(cycle_of: CycleOf, extender: RecordingExtender) -> None:
    """Scores of nodes that were not asked about change nothing."""
    extender.respond = scoring({"n1": 9, "n0": 1, "unknown": 10})
    cycle = cycle_of(cards(3), at(extender, prioritize_verb="prioritize", weight=1))

    assert await cycle.place(POD, Profile()) == "n1"
    assert [["n0", "n1", "n2"]] == asked(extender, "prioritize")


async def test_a_nominated_node_is_asked_about_first_and_alone(cycle_of: CycleOf, extender: RecordingExtender) -> None:
    """If it does not fit, the search goes on with every node."""
    extender.respond = refusing("n1")
    pod = {**POD, "status": {"nominatedNodeName": "n1"}}

    assert await cycle_of(cards(2), at(extender)).place(pod, Profile()) == "n0"
    assert [["n1"], ["n0", "n1"]] == asked(extender)
