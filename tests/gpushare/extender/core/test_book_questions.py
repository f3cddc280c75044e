"""Promises of gpushare.extender.core.book: what it answers, the pods that come, and their CPU."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpushare import wire
from gpushare.bounds import CARDS_OF_A_NODE
from gpushare.extender.core.book import Book
from gpushare.extender.core.reservations import Fate, State
from gpushare.extender.core.workload import Workload
from gpushare.manifests import DisruptionBudget, ObjectMeta
from gpushare.model.eviction import FIXED
from gpushare.model.forecast import Forecast, PodClass
from gpushare.model.placement import question
from gpushare.model.pod import Request
from gpushare.model.wishes import Wishes
from tests.gpushare.extender.core.booked import booking, node, pod, used


def test_eviction_cost_is_known_once_the_pod_shows_as_bound(book: Book) -> None:
    """An assumed pod is no victim: its scheduler may not know it."""
    book.assume("n", booking("a", 3, 0))
    assert [one.evictable for one in book.snapshot().nodes["n"].bookings] == [FIXED]
    book.set_pod(pod("a", 3, on="n", card=0, deleting=True))

    (found,) = book.snapshot().nodes["n"].bookings
    assert found.evictable.is_ending


def test_budgets_come_and_go(book: Book) -> None:
    """By namespace and name."""
    budget = DisruptionBudget(metadata=ObjectMeta(name="b", namespace="ns"))
    book.set_budget(budget)
    assert list(book.snapshot().budgets.values()) == [budget]
    book.remove_budget(budget.metadata)
    book.remove_budget(budget.metadata)
    assert not book.snapshot().budgets


def test_a_node_event_answers_if_there_are_other_cards(book: Book) -> None:
    """Another size of the same cards is none."""
    changes = ({}, {"memory": 40}, {"count": 1}, {"name": "m"})
    assert [book.set_node(node(**changed)) for changed in changes] == [False, False, True, True]


def test_the_fate_of_a_pod_is_what_was_shown_last(book: Book) -> None:
    """Unknown, waiting, bound at a version, or gone, also by a deletion under way. One that was re-created is another."""
    metadata, other = pod("a").metadata, ObjectMeta(name="a", namespace="default", uid="b")
    steps: list[Callable[[], object]] = [
        lambda: None,
        lambda: book.set_pod(pod("a")),
        lambda: book.set_pod(pod("a", deleting=True)),
        lambda: book.set_pod(pod("a", on="n", card=0, version=7)),
        lambda: book.remove_pod(metadata),
    ]
    seen = []
    for step in steps:
        step()
        seen.append((book.fate_of(metadata), book.pending_pod("default", "a") is not None))
        assert (book.is_pending(metadata), book.is_pending(other)) == (seen[-1][1], False)

    assert seen == [
        (Fate(State.UNKNOWN), False),
        (Fate(State.PENDING), True),
        (Fate(State.GONE), True),
        (Fate(State.BOUND, 7), False),
        (Fate(State.GONE), False),
    ]


def test_an_older_state_of_a_bound_pod_is_ignored(book: Book) -> None:
    """An answer may be ahead of the watch. The same version again is no older one, and a state without a version is none."""
    book.set_pod(pod("a", 3, on="n", card=0, version=2))
    book.set_pod(pod("a", 4, on="n", card=0, version=1))
    assert used(book) == [3, 0]
    book.set_pod(pod("a", 5, on="n", card=0, version=2))
    assert used(book) == [5, 0]
    book.set_pod(pod("a", 6, on="n", card=0))
    assert used(book) == [6, 0]


def test_the_same_version_again_ends_no_repair(book: Book) -> None:
    """A list shows the pod as the watch did: nothing can have been missed in between. A later version may be a repair's end."""
    book.set_pod(pod("a", 3, on="n", card=0, version=8))
    book.set_pod(pod("a", 3, on="n", card=1, version=8))
    assert used(book) == [3, 0]
    book.set_pod(pod("a", 3, on="n", card=1, version=9), has_gap=False)
    assert used(book) == [3, 0]
    book.set_pod(pod("a", 3, on="n", card=1, version=10))
    assert used(book) == [3, 3]


def test_a_correction_believes_what_the_api_has_now(book: Book) -> None:
    """The same version ends no repair, a later one may; of a pod that is shown unbound nothing is believed any more."""
    book.set_pod(pod("a", 3, on="n", card=0, version=8))
    book.correct(pod("a", 3, on="n", card=1, version=8))
    assert used(book) == [3, 0]
    book.correct(pod("a", 3, on="n", card=1, version=9))
    assert used(book) == [3, 3]
    book.correct(pod("a", 3, version=10))
    assert (used(book), book.is_pending(pod("a").metadata)) == ([0, 0], True)
    book.set_pod(pod("a", 3, on="n", card=1, version=11))
    assert used(book) == [0, 3]
    book.remove_pod(pod("a").metadata)
    book.correct(pod("a", 3, on="n", card=0, version=12))
    assert used(book) == [3, 0], "its end was reported wrongly"


def test_where_a_pod_is_booked_can_be_asked(book: Book) -> None:
    """By the API or by assumption; a pod that waits has an identity alone."""
    book.set_node(node("m"))
    book.set_pod(pod("b", on="n", card=0))
    book.set_pod(pod("w"))
    for name in ("n", "m"):
        book.assume(name, booking("a", 3, 1))

    ours = booking("a", 3, 1)
    assert (book.assumed("a", "n"), book.assumed("b", "n"), book.assumed("a", "x")) == (ours, None, None)
    assert (book.assumptions("a"), book.assumptions("b")) == ((("m", ours), ("n", ours)), ())
    confirmed = book.confirmed("b")
    assert confirmed is not None
    assert (confirmed[0], confirmed[1].uid, book.confirmed("a")) == ("n", "b", None)
    assert [(one.uid, problem) for one, problem in book.placed_on("n")] == [("b", None)]
    assert (book.placed_on("m"), book.placed_on("x")) == ([], [])
    identities = book.identities()
    assert {uid: one.uid for uid, one in identities.items()} == {"a": "a", "b": "b", "w": "w"}
    assert isinstance(identities["w"], ObjectMeta)


@pytest.mark.parametrize(
    ("by_container", "rest"),
    [
        ('{"0":{"7":2}}', "booked on none"),
        ('{"0":{"0":1,"7":1}}', "what else they name is booked"),
    ],
)
def test_a_card_that_is_not_there_is_a_problem(book: Book, by_container: str, rest: str) -> None:
    """The text names it, and the cards that there are; a node without cards has no wrong ones."""
    wrong = pod("a", on="n")
    wrong.metadata.annotations = {"scheduler.framework.gpushare.allocation": by_container}
    problem = f"annotations name card 7, but node n has the cards [0, 1]: {rest}"

    assert book.set_pod(wrong) == problem
    assert book.placed_on("n")[0][1] == problem
    book.set_node(node(memory=0))
    assert book.set_pod(wrong) is None


def test_every_event_touches_what_it_is_about(book: Book) -> None:
    """An audit believes no list over a pod or node that had an event since it began."""
    book.set_pod(pod("b", on="n", card=0))
    events: list[tuple[Callable[[], object], str]] = [
        (lambda: book.set_node(node("m")), "m"),
        (lambda: book.remove_node("m"), "m"),
        (lambda: book.set_unhealthy("n", frozenset()), "n"),
        (lambda: book.set_pod(pod("w")), "w"),
        (lambda: book.remove_pod(pod("w").metadata), "w"),
        (lambda: book.assume("n", booking("a", 3, 1)), "a"),
        (lambda: book.bound(pod("a").metadata, "n", 0), "a"),
        (lambda: book.forget("a", "n"), "a"),
        (lambda: book.set_pod(pod("w")), "w"),
        (lambda: book.set_unreadable(pod("x").metadata, ""), "x"),
    ]
    for event, key in events:
        book.touched = set()
        event()
        assert book.touched == {key}


def test_an_assumption_is_refused_with_the_pods_name(book: Book) -> None:
    """The reason goes to a log."""
    book.assume("n", booking("a", 3, 0))
    with pytest.raises(ValueError, match=r"^pod default/a \(a\) is already booked on n$"):
        book.assume("n", booking("a", 3, 0))
    book.remove_pod(pod("a").metadata)
    with pytest.raises(ValueError, match=r"^pod default/a \(a\) has ended$"):
        book.assume("n", booking("a", 3, 0))


def test_a_refused_bind_ends_no_booking_by_the_api(book: Book) -> None:
    """Nor an assumption on another node. The book counts the pods that the API shows, and those that only the book knows."""
    book.set_node(node("m"))
    book.set_pod(pod("b", 3, on="n", card=0))
    book.forget("b", "n")
    book.assume("n", booking("a", 3, 1))
    book.forget("a", "m")
    assert (used(book), book.booked_pods()) == ([3, 3], (1, 1))
    book.assume("m", booking("a", 3, 1))
    assert book.booked_pods() == (1, 1)
    book.forget("a", "n")
    book.forget("a", "m")
    assert (used(book), book.booked_pods()) == ([3, 0], (1, 0))


def test_a_refusal_of_a_node_is_known(book: Book) -> None:
    """A node that reports ten thousand cards is refused."""
    book.set_node(node("huge", 10_000, 10_000))

    assert (book.refusal_of("n"), book.refusal_of("x"), book.devices("x")) == (None, None, None)
    assert (book.refusal_of("huge"), book.snapshot().nodes["huge"].published.refusal) == (CARDS_OF_A_NODE.refusal,) * 2


def test_answers_follow_the_bookings() -> None:
    """As many requests are kept as was asked for."""
    book = Book(most_requests=1)
    book.set_node(node(count=1, memory=14))
    first = book.answers.reasons(Request(14))
    assert first == {"n": ""}
    book.assume("n", booking("a", 1, 0))
    assert book.answers.reasons(Request(14)) is first
    assert first == {"n": wire.REASON_NO_CARD_FITS}
    book.answers.reasons(Request(1))
    assert book.answers.reasons(Request(14)) is not first


def test_a_node_that_is_gone_is_in_no_answer() -> None:
    """A kept answer would send a pod there; its CPU is gone as well."""
    book = Book(Workload(counts_cpu=True))
    book.set_node(node(cpu="8"))
    book.set_node(node("m", cpu="8"))
    assert book.answers.reasons(Request(2)) == {"n": "", "m": ""}
    for _ in range(2):
        book.remove_node("n")

    assert (book.answers.reasons(Request(2)), set(book.snapshot().nodes)) == ({"m": ""}, {"m"})
    assert dict(book.snapshot().free_cpu) == {"m": 8000}


def test_what_pods_come_is_seen_once_each() -> None:
    """When the API shows them bound with cards; not as assumed, not again at a change."""
    workload = Workload()
    book = Book(workload)
    book.set_node(node())
    book.assume("n", booking("b", 5, 1))
    assert book.snapshot().forecast() is None
    for units in (3, 4):
        book.set_pod(pod("a", units, on="n", card=0))
    wished = pod("c", 2, on="n", card=1)
    wished.metadata.annotations |= {wire.WISH_MODEL: "T4", wire.WISH_POLICY: "spread"}  # type: ignore[operator]
    book.set_pod(wished)
    nowhere = pod("d", 2, on="n", card=1)
    nowhere.metadata.annotations = None
    book.set_pod(nowhere)

    forecast = workload.forecast()
    assert forecast is not None
    assert forecast.counts == {PodClass(3): 1, PodClass(2, wishes=Wishes(models=(" t4 ",))): 1}


def test_a_correction_counts_no_pod_twice() -> None:
    """A corrected pod counts once, in the forecast and by its CPU, although its card was written after the binding."""
    workload = Workload(counts_cpu=True)
    book = Book(workload)
    book.set_node(node(cpu="8"))
    late = pod("a", 3, on="n", cpu="1")
    book.set_pod(late)
    assert workload.forecast() is None
    for _ in range(3):
        book.correct(pod("a", 3, on="n", card=0, cpu="1"))

    forecast = workload.forecast()
    assert forecast is not None
    assert dict(forecast.counts) == {PodClass(3, cpu_milli=1000): 1}
    assert dict(book.snapshot().free_cpu) == {"n": 7000}
    book.correct(pod("a", 3, cpu="1"))
    assert dict(book.snapshot().free_cpu) == {"n": 8000}


def test_an_assumed_pod_has_its_cpu() -> None:
    """The next pod may come before the watch shows this one; a bind that was refused gives it back, on its own node alone."""
    workload = Workload(counts_cpu=True, expected=Forecast({PodClass(4): 1}))
    book = Book(workload)
    for name in ("n", "m"):
        book.set_node(node(name, cpu="8"))
    free = book.snapshot().free_cpu
    asked = question(Request(4), book.snapshot(), "fragmentation", 1000)
    costs = book.answers.costs(asked)
    assert costs is not None
    costs["n"] = 1.0

    book.assume("n", booking("a", 3, 0), 2500)
    assert (dict(free), book.answers.costs(asked)) == ({"n": 5500, "m": 8000}, {})
    book.set_pod(pod("a", 3, on="n", card=0, cpu="2500m"))
    book.set_pod(pod("plain", 0, on="n", cpu="1"))
    assert dict(free) == {"n": 4500, "m": 8000}
    book.remove_pod(pod("plain").metadata)
    assert dict(free) == {"n": 5500, "m": 8000}

    book.assume("n", booking("b", 3, 1), 1000)
    book.assume("m", booking("b", 3, 1), 1000)
    book.forget("b", "n")
    assert dict(free) == {"n": 5500, "m": 7000}
    book.assume("n", booking("b", 3, 1), 1000)
    book.forget("b", "n")
    assert dict(free) == {"n": 5500, "m": 7000}, "it is assumed on the other still"
    book.forget("b", "m")
    book.assume("m", booking("c", 3, 0))
    assert dict(free) == {"n": 5500, "m": 8000}


def test_a_pod_without_cards_has_its_cpu_once_it_is_bound() -> None:
    """A pod without cards uses its CPU from its bind on, unless the watch has not shown it yet or has seen its end."""
    book = Book(Workload(counts_cpu=True))
    book.set_node(node(cpu="8"))
    free, metadata = book.snapshot().free_cpu, pod("plain").metadata
    book.bound(metadata, "n", 500)
    assert dict(free) == {"n": 8000}, "no event would ever show that it has gone"
    book.set_pod(pod("plain", 0, cpu="500m"))
    book.bound(metadata, "n", 500)
    assert dict(free) == {"n": 7500}
    book.set_pod(pod("plain", 0, on="n", cpu="4"))
    book.bound(metadata, "n", 500)
    assert dict(free) == {"n": 4000}, "the watch knew better"
    book.remove_pod(metadata)
    book.bound(metadata, "n", 500)
    assert dict(free) == {"n": 8000}
