"""Promises of gpushare.extender.core.known_answers."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gpushare import wire
from gpushare.extender.core.filter import filter_nodes
from gpushare.extender.core.known_answers import MOST_REQUESTS, KnownAnswers
from gpushare.extender.core.prioritize import prioritize
from gpushare.model.device import Device
from gpushare.model.node import NodeInfo, lay_out
from gpushare.model.outlook import Outlook, PodClass
from gpushare.model.placement import Question, Snapshot, question
from gpushare.model.pod import Request
from gpushare.model.wishes import NONE, Wishes

NAMES = ("a", "b", "c")
CARDS = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 12), st.booleans(), st.integers(0, 2)), max_size=3
)  # fmt: skip
WISHES = st.sampled_from((NONE, Wishes(models=(" t4 ",)), Wishes(split=(3, 2))))
REQUESTS = st.builds(Request, st.integers(0, 9), st.integers(1, 2), st.booleans(), WISHES)
OUTLOOKS = (None, Outlook({PodClass(4): 2, PodClass(2, 2): 1}), Outlook({PodClass(3, cpu_milli=4000): 1}))
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
    outlook: list[Outlook | None] = [None]
    snapshot, known = Snapshot(nodes, lambda: outlook[0], free_cpu), KnownAnswers(nodes)
    for kind, *step in steps:
        if kind == "expect":
            outlook[0] = step[0]
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
    """The costs of one request, if CPU matters."""
    known = KnownAnswers({"a": node("a", [(9, 0, True, 0)])}, most=2)
    first = known.costs(Question(Request(1), "fragmentation", outlook=OUTLOOKS[1], cpu_milli=1))
    assert known.costs(Question(Request(1), "fragmentation", outlook=OUTLOOKS[1], cpu_milli=1)) is first
    for cpu in (2, 3):
        known.costs(Question(Request(1), "fragmentation", outlook=OUTLOOKS[1], cpu_milli=cpu))

    assert known.costs(Question(Request(1), "fragmentation", outlook=OUTLOOKS[1], cpu_milli=1)) is not first


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
        del nodes[name]
        known.changed(name)

    assert known._by_request[Request(1)].changed == set()
    assert known.costs(asked) == {}


def test_nothing_of_a_former_outlook_is_kept() -> None:
    """The costs of a former outlook are forgotten for every request, because its figures are of another scale."""
    known = KnownAnswers({"a": node("a", [(9, 0, True, 0)])})
    for outlook in OUTLOOKS[1:]:
        for units in (1, 2):
            found = known.costs(Question(Request(units), "fragmentation", outlook=outlook))
            assert found == {}
            found["a"] = 1.0

    assert known._outlook is OUTLOOKS[-1]
    assert len(known._costs) == 2


def test_a_look_displaces_nothing() -> None:
    """A look finds the kept answers, up to date. It keeps no new answer, and does not prefer the one that it finds."""
    nodes = {"a": node("a", [(9, 0, True, 0)])}
    known = KnownAnswers(nodes)
    assert known.known(Request(1)) is None
    first = known.reasons(Request(1))
    nodes["b"] = node("b", [(9, 0, True, 0)])
    known.changed("b")
    for units in range(2, MOST_REQUESTS + 1):
        known.reasons(Request(units))

    assert known.known(Request(1)) == {"a": "", "b": ""}
    assert known.known(Request(99)) is None
    known.reasons(Request(MOST_REQUESTS + 1))
    assert known.reasons(Request(1)) is not first


def test_only_so_many_requests_are_remembered() -> None:
    """The request that was asked longest ago is sorted again."""
    known = KnownAnswers({"a": node("a", [(9, 0, True, 0)])})
    first, second = known.reasons(Request(1)), known.reasons(Request(2))
    for units in range(3, MOST_REQUESTS + 1):
        known.reasons(Request(units))
    assert known.reasons(Request(1)) is first
    known.reasons(Request(MOST_REQUESTS + 1))

    assert known.reasons(Request(1)) is first
    assert known.reasons(Request(2)) is not second
