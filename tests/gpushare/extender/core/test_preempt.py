"""Promises of gpushare.extender.core.preempt."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gpushare.extender.core.preempt import Preemptor, Victims, preempt
from gpushare.manifests import DisruptionBudget
from gpushare.model.eviction import FIXED, Evictable
from gpushare.model.node import Booking, Device, NodeInfo, lay_out
from gpushare.model.placement import Question, Snapshot, reason_against
from gpushare.model.pod import Request
from gpushare.model.wishes import Wishes


def on(index: int, uid: str, units: int, priority: int = 0, **facts: object) -> Booking:
    """A pod on a card; ``cpu``, ``app``, ``ending``, ``entangled`` say more of it."""
    others = (("cpu", facts.get("cpu", 0)),)
    labels = (("app", str(facts["app"])),) if "app" in facts else ()
    evictable = Evictable(priority, labels, others, bool(facts.get("entangled")), bool(facts.get("ending")))  # type: ignore[arg-type]
    return Booking(uid, "ns", uid, units, ((index, units),), evictable=evictable)


def node(*bookings: Booking, cards: tuple[int, ...] = (8, 8)) -> NodeInfo:
    """Two cards of 8 units by default."""
    return lay_out("n", tuple(Device(at, total) for at, total in enumerate(cards)), bookings)


def ask(units: int, priority: int = 10, **more: object) -> Preemptor:
    """A pod of priority 10."""
    return Preemptor(Question(Request(units)), priority, **more)  # type: ignore[arg-type]


def victims(info: NodeInfo, preemptor: Preemptor, *proposed: str, budgets: tuple[DisruptionBudget, ...] = ()) -> object:
    """The victims in the answer for the one node; None if it is no candidate any more."""
    snapshot = Snapshot({"n": info}, budgets={("ns", str(at)): one for at, one in enumerate(budgets)})
    found = preempt(preemptor, {"n": Victims(proposed)}, snapshot).get("n")
    return None if found is None else set(found.uids)


@pytest.mark.promise("EXT-028")
@pytest.mark.parametrize(
    ("pods", "asking", "proposed", "expected"),
    [
        pytest.param(
            [on(0, "a", 5), on(1, "b", 4), on(1, "c", 1)], ask(5), ["c"], {"a"}, id="c-frees-the-sum-but-no-card"
        ),
        pytest.param([on(0, "a", 5), on(1, "b", 4), on(1, "c", 1)], ask(4), ["c"], {"c"}, id="c-is-enough"),
        pytest.param([on(0, "z", 8), on(1, "a", 4), on(1, "b", 4)], ask(8), ["a"], {"z"}, id="fewest"),
        pytest.param(
            [on(0, "a", 5, 10), on(0, "b", 3), on(1, "c", 5, 50), on(1, "d", 3)], ask(4), ["b"], None, id="each-card-kept"
        ),
        pytest.param(
            [on(0, "a", 8, 5), on(1, "b", 4, 1), on(1, "c", 4, 1)], ask(8), ["a"], {"b", "c"}, id="lowest-priority"
        ),
        pytest.param(
            [on(0, "a", 2, 1), on(0, "b", 2, 2), on(0, "c", 4, 3), on(1, "d", 8, 10)], ask(4), ["a"], {"a", "b"},
            id="who-can-stay-stays",
        ),
        pytest.param([on(0, "a", 8, 1), on(1, "b", 8, 9, ending=True)], ask(8), ["a"], {"b"}, id="goes-anyway"),
        pytest.param(
            [on(0, "a", 8), on(1, "b", 8, 50)], ask(8), ["stranger", "a"], {"stranger", "a"}, id="stranger-beside"
        ),
        pytest.param([], ask(8), ["stranger"], {"stranger"}, id="stranger-alone"),
        pytest.param(
            [on(0, "a", 8, 2, cpu=500), on(1, "b", 7, 50), on(1, "c", 1, 1, cpu=500)],
            ask(8, others=(("cpu", 1000),)), ["c"], {"a"},
            id="others-give-its-cpu",
        ),
        pytest.param([on(0, "a", 2, 1, cpu=100)], ask(4, others=(("cpu", 1),)), ["a"], {"a"}, id="room-already"),
        pytest.param(
            [replace(on(0, "a", 8), evictable=FIXED), on(1, "b", 8)], ask(8), ["b"], {"b"}, id="not-shown-bound-yet"
        ),
    ],
)  # fmt: skip
def test_the_end_of_the_least_worthy_frees_a_card(
    pods: list[Booking], asking: Preemptor, proposed: list[str], expected: set[str] | None
) -> None:
    """Pods of lower priority alone, the lowest and the fewest; a proposed pod that the book does not know stays a victim."""
    assert victims(node(*pods), asking, *proposed) == expected


def test_pod_of_a_used_up_budget_is_kept_if_another_can_go() -> None:
    """Though its priority is the lower one; and the answer counts those that could not be kept."""
    document = {"metadata": {"namespace": "ns"}, "spec": {"selector": {"matchLabels": {"app": "db"}}}}
    budget = msgspec.convert(document, DisruptionBudget)
    info = node(on(0, "a", 8, 1, app="db"), on(1, "b", 8, 5))

    assert victims(info, ask(8), "a", budgets=(budget,)) == {"b"}
    beside = node(on(0, "a", 4, 1, app="db"), on(0, "b", 4, 5), on(1, "c", 8, 50))
    assert victims(beside, ask(4), "a", budgets=(budget,)) == {"b"}
    alone = node(on(0, "a", 8, 1, app="db"), on(1, "b", 8, 50))
    found = preempt(ask(8), {"n": Victims(("a",), 0)}, Snapshot({"n": alone}, budgets={("ns", "b"): budget}))
    assert found == {"n": Victims(("a",), 1)}


def test_proposed_victim_needed_for_other_resources_is_kept() -> None:
    """Processor that the others do not give, or more than resources: then the pod would not fit, and they died for nothing."""
    proposed = on(1, "c", 1, 1, cpu=500)
    info = node(on(0, "a", 8, 2, cpu=400), on(1, "b", 7, 50), proposed)

    assert victims(info, ask(8, others=(("cpu", 1000),)), "c") == {"a", "c"}
    assert victims(info, ask(8), "c") == {"a"}
    assert victims(info, ask(8, is_entangled=True), "c") == {"a", "c"}
    tangled = node(on(0, "a", 8, 2), on(1, "b", 7, 50), on(1, "c", 1, 1, entangled=True))
    assert victims(tangled, ask(8), "c") == {"a", "c"}


def test_proposed_victim_needed_by_the_nodes_sum_is_kept() -> None:
    """A pod without a card (bound without the extender) counts in the scheduler's sum: a card's room alone is not enough."""
    lost = replace(on(0, "lost", 8, 50), shares=())
    info = node(on(0, "a", 8, 2), on(1, "c", 1, 1), lost)

    assert victims(info, ask(8), "a", "c") == {"a", "c"}


def test_the_answer_keeps_the_order_and_the_violations() -> None:
    """Proposed victims come first, in their order; the scheduler's count of violations stays if all of them do."""
    info = node(on(0, "z", 4), on(0, "a", 2), on(0, "b", 2), on(1, "c", 8, 50))
    spared = node(on(0, "a", 8), on(1, "b", 7, 50), on(1, "c", 1))

    proposed = Victims(("z", "stranger"), 3)
    assert preempt(ask(8), {"n": proposed}, Snapshot({"n": info})) == {"n": Victims(("z", "stranger", "a", "b"), 3)}
    assert preempt(ask(8), {"n": Victims(("c",), 3)}, Snapshot({"n": spared})) == {"n": Victims(("a",), 0)}
    for violations in (0, 3):
        same = {"n": Victims(("stranger", "a"), violations)}
        assert preempt(ask(8), same, Snapshot({"n": spared})) == same


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ([(8, 0)], [(4, 0), (4, 0)], {"00"}),
        ([(8, 1)], [(4, 0), (4, 0)], {"10", "11"}),
        ([(4, -5), (4, 1)], [(4, 0), (4, 1)], {"00", "01"}),
        ([(4, -(2**31)), (4, -(2**31))], [(8, -(2**31))], {"10"}),
        ([(8, -3)], [(8, -4)], {"10"}),
    ],
)
def test_cards_are_compared_as_the_scheduler_compares_nodes(
    first: list[tuple[int, int]], second: list[tuple[int, int]], expected: set[str]
) -> None:
    """The highest priority counts, then all together, then how many; a priority may be the lowest that there is."""
    pods = [
        on(card, f"{card}{at}", units, priority)
        for card, of_card in enumerate((first, second))
        for at, (units, priority) in enumerate(of_card)
    ]

    assert victims(node(*pods), ask(8)) == expected


def test_unknown_node_is_dropped_and_cardless_pods_one_kept() -> None:
    """The latter is the scheduler's business alone."""
    proposed = {"gone": Victims(("a",), 1)}

    assert preempt(ask(1), proposed, Snapshot()) == {}
    assert preempt(ask(0), proposed, Snapshot()) == proposed


def test_victims_free_as_many_cards_as_a_split_needs() -> None:
    """A wish counts here as it does in filter."""
    cards = tuple(Device(at, 8, uuid=str(at)) for at in range(3))
    info = lay_out("n", cards, [on(0, "a", 8, 1), on(1, "b", 8, 2), on(2, "c", 8, 3)])
    asked = Question(Request(12, wishes=Wishes(split=(6, 6))))

    assert victims(info, Preemptor(asked, 10), "a") == {"a", "b"}


PODS = st.lists(
    st.tuples(st.integers(0, 1), st.integers(1, 8), st.integers(0, 4), st.integers(0, 2)), min_size=1, max_size=6
)


@pytest.mark.promise("EXT-028")
@given(PODS, st.integers(1, 8), st.integers(1, 4), st.data())
def test_victims_make_room_and_none_has_the_pods_priority(
    pods: list[tuple[int, int, int, int]], units: int, priority: int, data: st.DataObject
) -> None:
    """The victims make room for any proposal, and a node is dropped only if all pods of lower priority are not enough."""
    bookings = [on(index, f"u{at}", size, rank, cpu=cpu) for at, (index, size, rank, cpu) in enumerate(pods)]
    info = node(*bookings)
    lower = [one.uid for one in bookings if one.evictable.priority < priority]
    proposed = tuple(data.draw(st.lists(st.sampled_from(lower), unique=True))) if lower else ()
    asked = ask(units, priority, others=(("cpu", data.draw(st.integers(0, 1))),))
    found = preempt(asked, {"n": Victims(proposed)}, Snapshot({"n": info})).get("n")

    def left(ended: tuple[str, ...]) -> NodeInfo:
        return node(*(one for one in bookings if one.uid not in ended))

    if found is None:
        assert reason_against(left(tuple(lower)), asked.asked)
        return
    assert set(found.uids) <= set(lower)
    assert len(set(found.uids)) == len(found.uids)
    assert not reason_against(left(found.uids), asked.asked)
