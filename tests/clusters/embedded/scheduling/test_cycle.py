from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from clusters.embedded.scheduling.cluster_view import ClusterView
from clusters.embedded.scheduling.configuration import Configuration, ExtenderConfiguration, ManagedResource, Profile
from clusters.embedded.scheduling.cycle import SchedulingCycle
from clusters.embedded.scheduling.extender_client import ExtenderClient, ExtenderError
from clusters.embedded.scheduling.fit import EXTENDER, NODE_AFFINITY, NODE_RESOURCES_FIT
from clusters.embedded.scheduling.fit_error import FitError, NoNodesError
from tests.clusters.embedded.scheduling.local_extender import Answer, Call, LocalExtender
from tests.clusters.embedded.scheduling.scheduling_objects import MEMORY, make_node, make_pod

CycleOf = Callable[..., SchedulingCycle]

POD = make_pod(limits={MEMORY: "2"})
REASON = "Insufficient GPU Memory in one device"


@pytest.fixture
async def extender() -> AsyncIterator[LocalExtender]:
    async with LocalExtender() as local:
        yield local


@pytest.fixture
async def other() -> AsyncIterator[LocalExtender]:
    async with LocalExtender() as local:
        yield local


def at(local: LocalExtender, **fields: Any) -> ExtenderConfiguration:
    return ExtenderConfiguration(local.url, **{"filter_verb": "filter", "node_cache_capable": True, **fields})


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
        configuration = Configuration(extenders)
        own = [ExtenderClient(each) for each in configuration.extenders_in_order]
        clients.extend(own)
        return SchedulingCycle(configuration, own, view, random.Random(1))

    yield make
    for client in clients:
        await client.close()


def asked(local: LocalExtender, verb: str = "filter") -> list[list[str]]:
    return [call.message["NodeNames"] for call in local.calls if call.verb == verb]


def refusing(*refused: str, unresolvable: bool = False, silent: bool = False) -> Any:
    async def respond(call: Call) -> Answer:
        names = [name for name in call.message["NodeNames"] if name not in refused]
        key = "FailedAndUnresolvableNodes" if unresolvable else "FailedNodes"
        words = {} if silent else dict.fromkeys(set(call.message["NodeNames"]) - set(names), REASON)
        return Answer({"NodeNames": names, key: words, "Error": ""})

    return respond


async def test_only_nodes_with_enough_in_total_reach_the_extender(cycle_of: CycleOf, extender: LocalExtender) -> None:
    """Without ignoredByScheduler a node without cards is never asked about; with it, it is."""
    nodes = [*cards(2), make_node("plain")]

    await cycle_of(nodes, at(extender)).place(POD, Profile())
    ignoring = at(extender, managed_resources=(ManagedResource(MEMORY, ignored_by_scheduler=True),))
    await cycle_of(nodes, ignoring).place(POD, Profile())

    assert [["n0", "n1"], ["n0", "n1", "plain"]] == asked(extender)


async def test_an_extender_is_asked_about_managed_pods_only(cycle_of: CycleOf, extender: LocalExtender) -> None:
    """A pod that names no managed resource is placed without a call."""
    configuration = at(extender, managed_resources=(ManagedResource(MEMORY),))

    await cycle_of(cards(2), configuration).place(make_pod(), Profile())

    assert [] == extender.calls


async def test_all_refused_gives_reasons_and_rejectors(cycle_of: CycleOf, extender: LocalExtender) -> None:
    """The error counts the nodes of each reason, and names the filters that refused."""
    extender.respond = refusing("n0", "n1")

    with pytest.raises(FitError) as caught:
        await cycle_of([*cards(2), make_node("plain")], at(extender)).place(POD, Profile())

    assert str(caught.value) == f"0/3 nodes are available: 1 Insufficient {MEMORY}, 2 {REASON}."
    assert {EXTENDER, NODE_RESOURCES_FIT} == caught.value.rejectors


async def test_a_silent_extender_is_to_blame_all_the_same(cycle_of: CycleOf, extender: LocalExtender) -> None:
    """An extender that drops a node without a reason is named as the one that refused it."""
    extender.respond = refusing("n0", silent=True)

    with pytest.raises(FitError) as caught:
        await cycle_of(cards(1), at(extender)).place(POD, Profile())

    assert {EXTENDER} == caught.value.rejectors


@pytest.mark.parametrize("unresolvable", [True, False])
async def test_a_refusal_tells_what_eviction_could_cure(
    cycle_of: CycleOf, extender: LocalExtender, unresolvable: bool
) -> None:
    """FailedNodes can be cured by an eviction, FailedAndUnresolvableNodes cannot."""
    extender.respond = refusing("n0", unresolvable=unresolvable)

    with pytest.raises(FitError) as caught:
        await cycle_of(cards(1), at(extender)).place(POD, Profile())

    assert unresolvable is not caught.value.diagnosis.rejections["n0"].resolvable


async def test_a_node_in_both_maps_is_unresolvable(cycle_of: CycleOf, extender: LocalExtender) -> None:
    """The reason of FailedAndUnresolvableNodes counts."""

    async def both(call: Call) -> Answer:
        return Answer({"NodeNames": [], "FailedAndUnresolvableNodes": {"n0": "never"}, "FailedNodes": {"n0": "full"}})

    extender.respond = both

    with pytest.raises(FitError, match="1 never"):
        await cycle_of(cards(1), at(extender)).place(POD, Profile())


async def test_extenders_are_asked_in_turn_ignorable_ones_last(
    cycle_of: CycleOf, extender: LocalExtender, other: LocalExtender
) -> None:
    """Each extender gets the nodes that the one before let through."""
    extender.respond = refusing("n0")
    other.respond = refusing("n1")
    configuration = [at(other, ignorable=True), at(extender)]

    assert await cycle_of(cards(3), *configuration).place(POD, Profile()) == "n2"
    assert [["n0", "n1", "n2"]] == asked(extender)
    assert [["n1", "n2"]] == asked(other)


async def test_no_node_left_ends_the_chain(cycle_of: CycleOf, extender: LocalExtender, other: LocalExtender) -> None:
    """The next extender is not asked about no nodes."""
    extender.respond = refusing("n0")

    with pytest.raises(FitError):
        await cycle_of(cards(1), at(extender), at(other)).place(POD, Profile())

    assert [] == other.calls


async def test_a_failing_extender_fails_the_cycle_unless_ignorable(cycle_of: CycleOf, extender: LocalExtender) -> None:
    """An ignorable extender that fails refuses no node."""

    async def broken(call: Call) -> Answer:
        return Answer({}, status=500)

    extender.respond = broken

    with pytest.raises(ExtenderError, match="code 500"):
        await cycle_of(cards(1), at(extender)).place(POD, Profile())
    assert await cycle_of(cards(1), at(extender, ignorable=True)).place(POD, Profile()) == "n0"


async def test_the_window_rotates(cycle_of: CycleOf, extender: LocalExtender) -> None:
    """120 of 250 nodes are asked about (48 %), and the next cycle goes on at the end of the search."""
    cycle = cycle_of(cards(250), at(extender))

    for _ in range(3):
        await cycle.place(POD, Profile())

    expected = [[f"n{(start + offset) % 250}" for offset in range(120)] for start in (0, 120, 240)]
    assert expected == asked(extender)


async def test_the_profile_s_percentage_widens_the_window(cycle_of: CycleOf, extender: LocalExtender) -> None:
    """With 100 % an extender gets all nodes that fit."""
    await cycle_of(cards(250), at(extender)).place(POD, Profile(percentage_of_nodes_to_score=100))

    assert [250] == [len(names) for names in asked(extender)]


async def test_refused_nodes_do_not_use_up_the_window(cycle_of: CycleOf, extender: LocalExtender) -> None:
    """The search goes on until enough nodes fit."""
    nodes = [*(make_node(f"plain{number}") for number in range(100)), *cards(150)]

    await cycle_of(nodes, at(extender)).place(POD, Profile())

    assert [[f"n{number}" for number in range(120)]] == asked(extender)


def scoring(scores: dict[str, int]) -> Any:
    async def respond(call: Call) -> Answer:
        if call.verb == "filter":
            return Answer({"NodeNames": call.message["NodeNames"]})
        return Answer([{"Host": name, "Score": score} for name, score in scores.items()])

    return respond


async def test_the_extender_s_score_decides_between_equal_nodes(cycle_of: CycleOf, extender: LocalExtender) -> None:
    """Scores of nodes that were not asked about change nothing."""
    extender.respond = scoring({"n1": 9, "n0": 1, "unknown": 10})
    cycle = cycle_of(cards(3), at(extender, prioritize_verb="prioritize", weight=1))

    assert await cycle.place(POD, Profile()) == "n1"
    assert [["n0", "n1", "n2"]] == asked(extender, "prioritize")


async def test_a_single_node_is_taken_without_scores(cycle_of: CycleOf, extender: LocalExtender) -> None:
    """Prioritize is not called if one node is left."""
    cycle = cycle_of(cards(1), at(extender, prioritize_verb="prioritize", weight=1))

    assert await cycle.place(POD, Profile()) == "n0"
    assert ["filter"] == extender.verbs()


async def test_scores_that_fail_have_no_say(cycle_of: CycleOf, extender: LocalExtender) -> None:
    """A tie then, broken by the seed."""

    async def respond(call: Call) -> Answer:
        return Answer({"NodeNames": call.message["NodeNames"]}, status=200 if call.verb == "filter" else 500)

    extender.respond = respond
    cycle = cycle_of(cards(2), at(extender, prioritize_verb="prioritize", weight=1))

    assert await cycle.place(POD, Profile()) in ("n0", "n1")


def nominated(name: str) -> dict[str, Any]:
    return {**POD, "status": {"nominatedNodeName": name}}


async def test_a_nominated_node_is_asked_about_first_and_alone(cycle_of: CycleOf, extender: LocalExtender) -> None:
    """If it fits, the other nodes are not looked at."""
    assert await cycle_of(cards(3), at(extender)).place(nominated("n1"), Profile()) == "n1"
    assert [["n1"]] == asked(extender)


async def test_a_nominated_node_that_does_not_fit_means_all_nodes(cycle_of: CycleOf, extender: LocalExtender) -> None:
    """The search goes on with every node."""
    extender.respond = refusing("n1")

    assert await cycle_of(cards(2), at(extender)).place(nominated("n1"), Profile()) == "n0"
    assert [["n1"], ["n0", "n1"]] == asked(extender)


async def test_a_failure_for_a_nominated_node_is_only_logged(cycle_of: CycleOf, extender: LocalExtender) -> None:
    """The pod is then placed as if it had no nomination."""

    async def fail_alone(call: Call) -> Answer:
        return Answer({"NodeNames": call.message["NodeNames"]}, 500 if len(call.message["NodeNames"]) == 1 else 200)

    extender.respond = fail_alone

    assert await cycle_of(cards(2), at(extender)).place(nominated("n1"), Profile()) in ("n0", "n1")
    assert [["n1"], ["n0", "n1"]] == asked(extender)


async def test_a_nominated_node_that_is_gone_is_no_matter(cycle_of: CycleOf, extender: LocalExtender) -> None:
    """The pod is placed on another node."""
    assert await cycle_of(cards(1), at(extender)).place(nominated("gone"), Profile()) == "n0"


async def test_a_daemon_s_pod_looks_at_its_node_only(cycle_of: CycleOf, extender: LocalExtender) -> None:
    """The node that its affinity names is the only one that is filtered."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    pod = make_pod(limits={MEMORY: "2"}, affinity=affinity)
    assert await cycle_of(cards(3), at(extender)).place(pod, Profile()) == "n1"

    with pytest.raises(FitError) as caught:
        await cycle_of(cards(3, units=1)).place(pod, Profile())
    expected = f"0/3 nodes are available: 1 Insufficient {MEMORY}, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]."
    assert expected == str(caught.value)
    assert {NODE_AFFINITY, NODE_RESOURCES_FIT} == caught.value.rejectors


async def test_a_cluster_without_nodes_says_so(cycle_of: CycleOf) -> None:
    """The error is the one that kube-scheduler has for it."""
    with pytest.raises(NoNodesError):
        await cycle_of([]).place(POD, Profile())
