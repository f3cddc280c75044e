"""Promises of gpushare.extender.core.filter."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpushare import wire
from gpushare.extender.core.filter import MOST_REQUESTS, FilterResult, KnownAnswers, filter_nodes, refuse_everywhere
from gpushare.extender.core.prioritize import prioritize
from gpushare.model.forecast import Forecast, PodClass
from gpushare.model.node import Device, NodeInfo, lay_out
from gpushare.model.placement import Question, Snapshot, question, reason_against
from gpushare.model.pod import Request
from gpushare.model.wishes import NONE, Wishes
from tests.counted import steps_of

FULL = lay_out("full", (Device(0, 14, 10), Device(1, 14, 9)), [])
FREE = lay_out("free", (Device(0, 14),), [])
SMALL = lay_out("small", (Device(0, 4),), [])
UNHEALTHY = lay_out("unhealthy", (Device(0, 14, healthy=False),), [])
PLAIN = lay_out("plain", (), [])
CLUSTER = Snapshot({node.name: node for node in (FULL, FREE, SMALL, UNHEALTHY, PLAIN)})


@pytest.mark.promise("EXT-007")
def test_what_eviction_cannot_cure_is_unresolvable() -> None:
    """No large enough card, no healthy card, no card, no node: preemption must not kill pods there, as it may on a full node."""
    result = filter_nodes(Question(Request(6)), ["small", "full", "unhealthy", "plain", "free", "gone"], CLUSTER)

    assert (result.fitting, result.failed) == (["free"], {wire.REASON_NO_CARD_FITS: ["full"]})
    assert result.unresolvable == {
        wire.REASON_NO_CARD_LARGE_ENOUGH: ["small"],
        wire.REASON_ALL_CARDS_UNHEALTHY: ["unhealthy"],
        wire.REASON_NOT_A_GPU_NODE: ["plain"],
        wire.REASON_UNKNOWN_NODE: ["gone"],
    }


@pytest.mark.promise("EXT-014")
def test_a_pod_that_asks_for_nothing_fits_everywhere() -> None:
    """A pod that asks for nothing fits everywhere, also on nodes without cards and on nodes that we do not know."""
    assert filter_nodes(Question(Request(0)), ["plain", "gone", "free"], CLUSTER).fitting == ["plain", "gone", "free"]


ASKED = st.lists(st.sampled_from(["full", "free", "small", "unhealthy", "plain", "gone"]), max_size=12)


@pytest.mark.promise("EXT-004", "EXT-006")
@given(ASKED, st.integers(0, 20))
def test_every_name_comes_back_exactly_once(names: list[str], request: int) -> None:
    """In one of the three answers, under one reason, in the order asked; nothing is invented."""
    result = filter_nodes(Question(Request(request)), names, CLUSTER)
    answers = [result.fitting, *result.failed.values(), *result.unresolvable.values()]

    assert sorted(name for answer in answers for name in answer) == sorted(set(names))
    assert all(answer == [name for name in dict.fromkeys(names) if name in answer] for answer in answers)
    for refused in (result.failed, result.unresolvable):
        assert list(refused) == sorted(refused, key=lambda reason: names.index(refused[reason][0]))


@example(["full", "free"], 6, 40)
@given(ASKED, st.integers(1, 20), st.sampled_from([0, 40]))
def test_answers_that_are_known_make_no_difference(names: list[str], request: int, others: int) -> None:
    """Whether most nodes are asked about or few of them; and a caller that keeps them has them all afterwards."""
    asked = Question(Request(request))
    nodes = dict(CLUSTER.nodes) | {name: lay_out(name, (), []) for name in map("other-{}".format, range(others))}
    known = {name: reason_against(node, asked) for name, node in nodes.items()}
    before = dict(known)

    assert filter_nodes(asked, names, Snapshot(nodes), known) == filter_nodes(asked, names, CLUSTER)
    assert known == before


# One free slot of two on a card with 60 MiB left; none on the card with 80.
SLOTTED = lay_out("slotted", (Device(0, 80, 20, slots=2, slots_used=1), Device(1, 80, slots=2, slots_used=2)), [])
SLOTS = Snapshot({"slotted": SLOTTED, "free": FREE})


def test_a_pod_without_its_slots_is_refused_on_slots_nodes_alone() -> None:
    """A pod without its slots is refused on nodes in slots mode alone: its containers would see every card there."""
    result = filter_nodes(Question(Request(6, 2, names_slots=False)), ["slotted", "free"], SLOTS)

    assert (result.fitting, result.failed) == (["free"], {})
    assert result.unresolvable == {wire.REASON_SLOT_MISSING: ["slotted"]}
    assert filter_nodes(Question(Request(0)), ["slotted"], SLOTS).fitting == ["slotted"]
    lone = filter_nodes(Question(Request(0, 0, names_slots=False)), ["slotted", "free", "gone"], SLOTS)
    assert (lone.fitting, lone.unresolvable) == (["free", "gone"], {wire.REASON_SLOT_MISSING: ["slotted"]})


def test_pod_with_senseless_annotations_is_refused_everywhere() -> None:
    """A pod with senseless annotations is refused as unresolvable: the end of other pods does not mend an annotation."""
    assert refuse_everywhere("bad wish", ["a", "b", "a"]) == FilterResult([], {}, {"bad wish": ["a", "b"]})
    assert refuse_everywhere("bad wish", []) == FilterResult([], {}, {})


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (FilterResult(["a"], {"full": ["b"]}, {"small": ["c"]}), ""),
        (FilterResult([], {"full": ["b"], "no slot": ["d"]}, {"small": ["c"]}), "full"),
        (FilterResult([], {}, {"small": ["c"], "unhealthy": ["e"]}), "small"),
        (FilterResult([], {}, {}), ""),
    ],
)
def test_an_answer_has_one_reason_for_all_nodes(result: FilterResult, reason: str) -> None:
    """The one with a remedy, before those that nothing helps against."""
    assert result.reason == reason


def steps_to_filter(entries: int, nodes: int) -> int:
    """The work of one question about nodes of eight cards, for a pod that names that number of models."""
    cards = tuple(Device(at, 14, uuid=f"GPU-{at}", model="Tesla T4") for at in range(8))
    snapshot = Snapshot({f"n{at}": lay_out(f"n{at}", cards, []) for at in range(nodes)})
    models = tuple(f" a{number} " for number in range(entries))
    request = Request(1, wishes=Wishes(models=models))

    def ask() -> FilterResult:
        return filter_nodes(Question(request), list(snapshot.nodes), snapshot)

    # The first question of a process takes steps of its own, which are the same for any number of models: they fill its caches.
    ask()
    return steps_of(ask)


def test_models_are_compared_once() -> None:
    """The work for a node is the same for a pod that names one model and for one that names many."""
    few, many = (steps_to_filter(entries, 41) - steps_to_filter(entries, 1) for entries in (1, 64))

    assert few == many


NAMES = ("a", "b", "c")
CARDS = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 12), st.booleans(), st.integers(0, 2)), max_size=3
)  # fmt: skip
WISHES = st.sampled_from((NONE, Wishes(models=(" t4 ",)), Wishes(split=(3, 2))))
REQUESTS = st.builds(Request, st.integers(0, 9), st.integers(1, 2), st.booleans(), WISHES)
OUTLOOKS = (None, Forecast({PodClass(4): 2, PodClass(2, 2): 1}), Forecast({PodClass(3, cpu_milli=4000): 1}))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(NAMES), st.one_of(st.none(), CARDS)),
        st.tuples(st.just("cpu"), st.sampled_from(NAMES), st.integers(0, 9000)),
        st.tuples(st.just("expect"), st.sampled_from(OUTLOOKS)),
        st.tuples(st.just("ask"), REQUESTS, st.sampled_from(wire.POLICIES), st.sampled_from((0, 1000, 5000))),
    ),
    max_size=12,
)


def node(name: str, cards: list[tuple[int, int, bool, int]]) -> NodeInfo:
    """In slots mode if the first card has slots."""
    slots = bool(cards) and cards[0][3] > 0
    devices = (
        Device(at, total, used, healthy, slots=max(count, 1) if slots else 0)
        for at, (total, used, healthy, count) in enumerate(cards)
    )
    return lay_out(name, tuple(devices), [])


@given(STEPS)
def test_remembered_answers_equal_fresh_ones(steps: list[tuple[Any, ...]]) -> None:
    """However nodes come, change and go between questions: the same names, the same reasons, the same scores."""
    nodes: dict[str, NodeInfo] = {}
    free_cpu: dict[str, int] = {}
    forecast: list[Forecast | None] = [None]
    snapshot, known = Snapshot(nodes, lambda: forecast[0], free_cpu), KnownAnswers(nodes)
    for kind, *step in steps:
        if kind == "expect":
            forecast[0] = step[0]
        elif kind == "cpu":
            free_cpu[step[0]] = step[1]
            known.changed(step[0])
        elif kind == "ask":
            compare(question(step[0], snapshot, step[1], step[2]), snapshot, known)
        else:
            if step[0] is None:
                nodes.pop(kind, None)
            else:
                nodes[kind] = node(kind, step[0])
            known.changed(kind)


def compare(asked: Question, snapshot: Snapshot, known: KnownAnswers) -> None:
    """The answers with what is known, and without."""
    for names in (list(NAMES), ["c", "a", "a"]):
        found = filter_nodes(asked, names, snapshot, known.reasons(asked.request))
        assert found == filter_nodes(asked, names, snapshot)
        scores = prioritize(asked, names, snapshot, known.costs(asked))
        assert scores == prioritize(asked, names, snapshot)


def test_a_request_of_a_group_is_not_remembered() -> None:
    """The answer depends on the other pods of the cluster, not on the node alone."""
    known = KnownAnswers({})

    assert known.reasons(Request(2, wishes=Wishes(group="ns/g"))) is None
    assert known.costs(Question(Request(2, wishes=Wishes(group="ns/g")))) is None


def test_only_so_many_amounts_of_cpu_are_remembered() -> None:
    """The costs of one request, if CPU matters; those that were asked for longest ago go."""
    known = KnownAnswers({"a": node("a", [(9, 0, True, 0)])}, most=2)
    asked = {cpu: Question(Request(1), "fragmentation", forecast=OUTLOOKS[1], cpu_milli=cpu) for cpu in (1, 2, 3)}
    first = known.costs(asked[1])
    known.costs(asked[2])
    assert known.costs(asked[1]) is first
    known.costs(asked[2])
    known.costs(asked[3])

    assert known.costs(asked[1]) is not first


def test_scores_of_a_node_by_itself_are_known_whatever_the_cpu() -> None:
    """Binpack and spread do not look at it: each amount of CPU would ask all nodes again."""
    known = KnownAnswers({"a": node("a", [(9, 0, True, 0)])})

    assert known.costs(Question(Request(1), cpu_milli=1)) is known.costs(Question(Request(1), cpu_milli=2))


def test_nodes_that_come_and_go_leave_nothing_behind() -> None:
    """Nodes that come and go leave nothing behind, also with a request that does not come again."""
    nodes: dict[str, NodeInfo] = {}
    known = KnownAnswers(nodes)
    known.reasons(Request(1))
    asked = Question(Request(1))
    for number in range(3):
        name = f"node-{number}"
        nodes[name] = node(name, [(9, 0, True, 0)])
        known.changed(name)
        prioritize(asked, [name, f"unknown-{number}"], Snapshot(nodes), known.costs(asked))
        assert known.reasons(Request(2)) == {name: ""}
        del nodes[name]
        known.changed(name)

    assert known.known(Request(1)) == known.known(Request(2)) == {}
    assert known.costs(asked) == {}


def test_a_look_displaces_nothing() -> None:
    """A look finds the kept answers, up to date. It keeps no new answer, and does not prefer the one that it finds.

    The request that was asked for longest ago is forgotten.
    """
    nodes = {"a": node("a", [(9, 0, True, 0)])}
    known = KnownAnswers(nodes)
    assert known.known(Request(1)) is None
    first, second = known.reasons(Request(1)), known.reasons(Request(2))
    nodes["b"] = node("b", [(9, 0, True, 0)])
    known.changed("b")
    for units in range(3, MOST_REQUESTS + 1):
        known.reasons(Request(units))

    assert known.reasons(Request(2)) is second
    assert known.known(Request(1)) == {"a": "", "b": ""}
    assert known.known(Request(99)) is None
    known.reasons(Request(MOST_REQUESTS + 1))
    assert known.reasons(Request(2)) is second
    assert known.reasons(Request(1)) is not first
