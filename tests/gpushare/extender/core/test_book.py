"""Promises of gpushare.extender.core.book: each alone, then all against a naive model under any order of events."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gpushare import wire
from gpushare.bounds import CARDS_OF_A_NODE
from gpushare.errors import DoesNotFitError
from gpushare.extender.core.book import ENDED_REMEMBERED, Book
from gpushare.extender.core.reservations import Fate, State
from gpushare.extender.core.workload import Workload
from gpushare.manifests import DisruptionBudget, Node, ObjectMeta, Pod
from gpushare.model.cards import CardFacts, NodeCards, encode_cards
from gpushare.model.eviction import FIXED
from gpushare.model.node import Booking
from gpushare.model.outlook import Outlook, PodClass
from gpushare.model.placement import Question, choose, question
from gpushare.model.pod import Request
from gpushare.model.wishes import Wishes

MEMORY, COUNT = "aliyun.com/gpu-mem", "aliyun.com/gpu-count"


def node(name: str = "n", memory: int = 28, count: int = 2, cpu: str = "1") -> Node:
    """A node of the Go plugin."""
    status = {"capacity": {MEMORY: str(memory), COUNT: str(count)}, "allocatable": {"cpu": cpu}}
    return msgspec.convert({"metadata": {"name": name}, "status": status}, Node)


def pod(
    uid: str,
    units: object = 2,
    *,
    name: str | None = None,
    on: str | None = None,
    card: object = None,
    phase: str = "Pending",
    running: bool = False,
    deleting: bool = False,
    cpu: str = "0",
    version: int = 0,
) -> Pod:
    """A pod as the API shows it."""
    resources = {"limits": {MEMORY: units}, "requests": {"cpu": cpu}}
    document = {
        "metadata": {
            "name": name or uid,
            "namespace": "default",
            "uid": uid,
            "resourceVersion": str(version or ""),
            "annotations": None if card is None else {"ALIYUN_COM_GPU_MEM_IDX": str(card)},
            "deletionTimestamp": "2026-01-01T00:00:00Z" if deleting else None,
        },
        "spec": {"nodeName": on, "containers": [{"name": "c", "resources": resources}]},
        "status": {"phase": phase, "containerStatuses": [{"name": "c", "state": {"running": {}}}] if running else None},
    }
    return msgspec.convert(document, Pod)


def booking(uid: str, units: int, card: int) -> Booking:
    """The booking that bind assumes."""
    return Booking(uid, "default", uid, units, ((card, units),))


def used(book: Book, name: str = "n") -> list[int]:
    """Units booked on each card of a node."""
    info = book.snapshot().nodes[name]
    assert info.name == name
    return [device.used for device in info.devices]


@pytest.fixture
def book() -> Book:
    """A book that knows one node of two cards with 14 units each."""
    book = Book()
    book.set_node(node())
    return book


@pytest.mark.parametrize(
    ("before", "units", "after", "expected"),
    [(30, 14, 30720, 14336), (30720, 14000, 30, 14), (30, 14, 30, 14)],
    ids=["GiB to MiB", "MiB to GiB", "same unit"],
)
def test_booking_keeps_its_memory_when_the_unit_changes(before: int, units: int, after: int, expected: int) -> None:
    """Pods of the Go plugin outlive a change of its unit, and a card is not promised twice."""
    book = Book()
    book.set_node(node(memory=before))
    running = pod("a", units, on="n", card=0, phase="Running", running=True)
    running.metadata.annotations["ALIYUN_COM_GPU_MEM_DEV"] = str(before // 2)  # type: ignore[index]
    book.set_pod(running)
    book.set_node(node(memory=after))

    assert used(book) == [expected, 0]


@pytest.mark.parametrize("card", [None, "x", 1], ids=["removed", "nonsense", "another card"])
def test_what_was_bound_stays_booked(book: Book, card: object) -> None:
    """The author of a running pod changes its annotations: its card does not look free, and no other looks used."""
    book.set_pod(pod("u", 14, on="n", card=0, phase="Running"), has_gap=False)
    problem = book.set_pod(pod("u", 14, on="n", card=card, phase="Running"), has_gap=False)

    assert used(book) == [14, 0]
    assert "later changes of its annotations are not believed" in (problem or "")


def test_an_acknowledged_bind_is_believed(book: Book) -> None:
    """The watch was broken, so the first state of the bound pod is one that its author has changed: both cards are booked."""
    book.set_pod(pod("u", 4))
    book.assume("n", replace(booking("u", 4, 0), card_size=14))
    book.bound(pod("u").metadata, "n", 0)
    book.set_pod(pod("u", 4, on="n", card=1, version=1), has_gap=True)
    assert (used(book), book.placed_on("n")[0][0].card_size) == ([4, 4], 14)

    book.audited()
    book.audited()
    assert used(book) == [4, 4]


def test_pending_pods_are_kept_small(book: Book) -> None:
    """300 pods with 250 kB of annotations each leave a few hundred bytes."""
    for number in range(300):
        large = pod(f"u{number}", 4)
        large.metadata.annotations = {"note": "x" * 250_000}
        large.metadata.labels = {"note": "x" * 60}
        book.set_pod(large)

    kept = [book.pending_pod("default", f"u{number}") for number in range(300)]
    assert len(msgspec.json.encode(kept)) < 300 * 1000
    assert sum(len(one.metadata.annotations or {}) for one in kept if one is not None) == 0


def test_a_dispute_ends_where_our_plugin_runs(book: Book) -> None:
    """A dispute ends after two audits if our plugin runs on the node, because it corrects annotations that are wrong."""
    facts = tuple(CardFacts(index, f"GPU-{index}", "m", 14, 14) for index in (0, 1))
    published = node()
    annotation = {"aliyun.com/gpushare-cards": encode_cards(NodeCards(1, "ids", "GiB", "", facts))}
    published.metadata.annotations = annotation
    book.set_node(published)
    book.set_pod(pod("u", 4, on="n", card=0), has_gap=False)
    later = pod("u", 4, on="n", card=1)
    later.metadata.resource_version = "9"
    book.set_pod(later, has_gap=True)
    book.audited()
    assert used(book) == [4, 4]

    book.touched = set()
    book.audited()

    assert (used(book), book.touched) == ([0, 4], {"u"})
    book.touched = set()
    book.audited()
    assert book.touched == set(), "there is no dispute any more"
    assert book.set_pod(pod("u", 4, on="n", card=1), has_gap=False) is None


def test_a_dispute_ends_with_its_pod(book: Book) -> None:
    """The next audit finds none."""
    book.set_pod(pod("u", 4, on="n", card=0, version=1))
    book.set_pod(pod("u", 4, on="n", card=1, version=2))
    assert used(book) == [4, 4]
    book.remove_pod(pod("u").metadata)
    book.audited()

    assert used(book) == [0, 0]


def test_a_restored_pod_is_booked(book: Book) -> None:
    """A restored pod is booked again, because its end was in a history that is lost."""
    book.set_pod(pod("u", 4, on="n", card=1))
    book.remove_pod(pod("u").metadata)
    book.set_pod(pod("u", 4, on="n", card=1))
    assert used(book) == [0, 0]

    book.begin_anew()
    book.set_pod(pod("u", 4, on="n", card=0), has_gap=False)

    assert used(book) == [4, 0], "nothing that was believed of it counts"


def test_a_booking_stays_until_the_list_lacks_it(book: Book) -> None:
    """While the list comes the containers may still run."""
    book.set_pod(pod("u", 4, on="n", card=1))
    book.begin_anew()
    assert used(book) == [0, 4]

    book.remove_pod(pod("u").metadata)

    assert used(book) == [0, 0]


def test_a_lost_bind_frees_its_card(book: Book) -> None:
    """The restored state shows the pod unbound, so its booking does not hold."""
    book.set_pod(pod("u", 4, on="n", card=0))
    book.set_pod(pod("u", 4))
    assert used(book) == [4, 0], "without a restore it is an old event"
    book.begin_anew()
    assert used(book) == [4, 0]

    book.set_pod(pod("u", 4))

    assert used(book) == [0, 0]
    assert book.is_pending(pod("u").metadata)
    book.set_pod(pod("u", 4, on="n", card=1), has_gap=False)
    assert used(book) == [0, 4]


def test_a_lost_bind_without_a_card_is_forgotten(book: Book) -> None:
    """The pod was bound past every extender."""
    book.set_pod(pod("u", 4, on="n"))
    assert book.snapshot().nodes["n"].unplaced == 4
    book.begin_anew()
    book.set_pod(pod("u", 4))

    assert book.snapshot().nodes["n"].unplaced == 0


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
    book.remove_node("n")

    assert (book.answers.reasons(Request(2)), set(book.snapshot().nodes)) == ({"m": ""}, {"m"})
    assert dict(book.snapshot().free_cpu) == {"m": 8000}


def test_a_bind_under_way_survives_a_restore(book: Book) -> None:
    """A bind under way keeps its room after a restore, because its request may still take effect."""
    book.assume("n", booking("u", 4, 0))
    book.begin_anew()
    book.set_pod(pod("u", 4))

    assert used(book) == [4, 0]


def test_an_assumed_pod_holds_its_card_until_it_is_forgotten(book: Book) -> None:
    """Assume books immediately; forget frees."""
    book.assume("n", booking("a", 3, 1))
    assert used(book) == [0, 3]

    book.forget("a", "n")
    assert used(book) == [0, 0]


def test_the_api_is_the_truth_about_a_bound_pod(book: Book) -> None:
    """Whatever we assumed, the card that the API shows is booked, once."""
    book.assume("n", booking("a", 3, 1))
    book.set_pod(pod("a", 3, on="n", card=0))
    assert used(book) == [3, 0]

    book.forget("a", "n")
    assert used(book) == [3, 0]


def test_pod_assumed_on_two_nodes_ends_on_its_bound_one(book: Book) -> None:
    """The outcome of a first bind was not known when a second node was tried."""
    book.set_node(node("m"))
    book.assume("n", booking("a", 3, 0))
    book.assume("m", booking("a", 3, 0))
    assert (used(book), used(book, "m")) == ([3, 0], [3, 0])

    book.set_pod(pod("a", 3, on="m", card=0))
    assert (used(book), used(book, "m")) == ([0, 0], [3, 0])


def test_an_event_without_a_node_does_not_end_an_assumption(book: Book) -> None:
    """An event without a node does not end an assumption, because it is older than the bind."""
    book.assume("n", booking("a", 3, 0))
    book.set_pod(pod("a", 3))

    assert used(book) == [3, 0]


def test_a_pod_being_deleted_keeps_its_card_until_it_is_gone(book: Book) -> None:
    """A pod that is being deleted keeps its card until it is gone: its processes still hold the memory (defect D15)."""
    book.set_pod(pod("a", 3, on="n", card=0, phase="Running", running=True, deleting=True))
    assert used(book) == [3, 0]

    book.remove_pod(ObjectMeta(name="a", namespace="default", uid="a"))
    assert used(book) == [0, 0]


def test_a_failed_pod_keeps_its_card_while_a_container_runs(book: Book) -> None:
    """Evicted on paper, alive on the card."""
    book.set_pod(pod("a", 3, on="n", card=0, phase="Failed", running=True))
    assert used(book) == [3, 0]

    book.set_pod(pod("a", 3, on="n", card=0, phase="Failed"))
    assert used(book) == [0, 0]


def test_a_pod_recreated_under_its_name_is_another_pod(book: Book) -> None:
    """The end of the old one, however late, does not free the new one's card (defect D17)."""
    book.set_pod(pod("old", 3, name="web-0", on="n", card=0))
    book.set_pod(pod("new", 4, name="web-0", on="n", card=1))
    book.remove_pod(ObjectMeta(name="web-0", namespace="default", uid="old"))

    assert used(book) == [0, 4]


def test_what_is_gone_stays_gone(book: Book) -> None:
    """An older answer that arrives after the end books nothing, and nothing is assumed for an ended pod."""
    book.set_pod(pod("a", 3, on="n", card=0))
    book.remove_pod(ObjectMeta(name="a", namespace="default", uid="a"))
    book.set_pod(pod("a", 3, on="n", card=0))
    assert used(book) == [0, 0]

    with pytest.raises(ValueError, match="ended"):
        book.assume("n", booking("a", 3, 0))


def test_the_memory_of_ended_pods_is_bounded(book: Book) -> None:
    """Years of pods do not pile up."""
    for number in range(ENDED_REMEMBERED + 5):
        book.remove_pod(ObjectMeta(name="x", namespace="d", uid=str(number)))

    assert len(book._ended) == ENDED_REMEMBERED


def test_no_pod_is_assumed_twice_on_a_node(book: Book) -> None:
    """Twice assumed would be twice booked."""
    book.assume("n", booking("a", 3, 0))
    with pytest.raises(ValueError, match="already booked"):
        book.assume("n", booking("a", 3, 0))


def test_bookings_outlive_the_node_object(book: Book) -> None:
    """A node that is deleted and comes back with other cards still has its pods (defects D13, D14)."""
    book.set_pod(pod("a", 3, on="n", card=0))
    book.remove_node("n")
    assert "n" not in book.snapshot().nodes

    book.set_node(node(memory=0, count=2))
    assert book.snapshot().nodes["n"].devices == ()

    book.set_node(node(memory=40, count=1))
    assert used(book) == [3]
    assert book.snapshot().nodes["n"].largest_free == 37


def test_pods_may_come_before_their_node() -> None:
    """The two lists have no order."""
    book = Book()
    book.set_pod(pod("a", 3, on="n", card=1))
    book.set_node(node())

    assert used(book) == [0, 3]


def test_a_card_declared_sick_is_not_free_and_comes_back(book: Book) -> None:
    """The ConfigMap of the contract; an empty one ends it."""
    book.set_unhealthy("n", frozenset({0}))
    assert [device.free for device in book.snapshot().nodes["n"].devices] == [0, 14]

    book.set_unhealthy("n", frozenset())
    book.set_unhealthy("elsewhere", frozenset({1}))
    assert [device.free for device in book.snapshot().nodes["n"].devices] == [14, 14]


@pytest.mark.parametrize(
    ("bound", "says", "booked", "unplaced"),
    [
        (pod("a", 3, on="n", card=7), "card 7", [0, 0], 3),
        (pod("a", 3, on="n", card="-1"), "ALIYUN_COM_GPU_MEM_IDX", [0, 0], 3),
        (pod("a", "1.5", on="n", card=0), "1.5", [0, 0], 0),
    ],
)
def test_odd_annotations_are_reported_and_book_no_card(
    book: Book, bound: Pod, says: str, booked: list[int], unplaced: int
) -> None:
    """The program lives on, logs what is wrong, and counts the units as unplaced if it can read them."""
    assert says in str(book.set_pod(bound))
    assert (used(book), book.snapshot().nodes["n"].unplaced) == (booked, unplaced)


def test_a_pod_whose_card_is_being_changed_is_on_both_cards(book: Book) -> None:
    """Until the device plugin takes its mark away; then it is on the card that the index names."""
    seen = []
    for index, mark in ((0, None), (0, 1), (1, 0), (1, None)):
        changed = pod("a", 5, on="n", card=index)
        if mark is not None and changed.metadata.annotations is not None:
            changed.metadata.annotations["ALIYUN_COM_GPU_MEM_REPAIR"] = str(mark)
        book.set_pod(changed)
        seen.append(used(book))

    assert seen == [[5, 0], [5, 5], [5, 5], [0, 5]]
    assert book.snapshot().nodes["n"].unplaced == 0


def test_a_pod_that_asks_for_nothing_books_nothing(book: Book) -> None:
    """A pod that asks for nothing books nothing, even with an index that its author wrote on it."""
    assert book.set_pod(pod("a", 0, on="n", card=0)) is None
    assert book.snapshot().nodes["n"].bookings == ()


def test_a_pod_that_the_api_shows_elsewhere_moves(book: Book) -> None:
    """A pod that the API shows on another node moves there. It cannot happen to one uid, but the API is right."""
    book.set_node(node("m"))
    book.set_pod(pod("a", 3, on="n", card=0))
    book.set_pod(pod("a", 3, on="m", card=1))

    assert (used(book), used(book, "m")) == ([0, 0], [0, 3])


def test_a_pod_whose_request_ends_books_nothing_more(book: Book) -> None:
    """Resized in place to nothing."""
    book.set_pod(pod("a", 3, on="n", card=0))
    book.set_pod(pod("a", 0, on="n", card=0))

    assert used(book) == [0, 0]


def test_pending_pods_are_known_until_they_are_bound_or_gone(book: Book) -> None:
    """Bind asks here first, which saves a request."""
    book.set_pod(pod("a", 3))
    book.set_pod(pod("b", 3))
    assert book.pending_pod("default", "a") is not None

    book.set_pod(pod("a", 3, on="n", card=0))
    book.remove_pod(ObjectMeta(name="b", namespace="default", uid="b"))
    assert (book.pending_pod("default", "a"), book.pending_pod("default", "b")) == (None, None)


def test_a_pending_pod_is_its_uid(book: Book) -> None:
    """One that was re-created under its name is another."""
    book.set_pod(pod("1", name="a"))

    names = [("1", "a"), ("2", "a"), ("1", "b")]
    found = [book.is_pending(ObjectMeta(name=name, namespace="default", uid=uid)) for uid, name in names]
    assert found == [True, False, False]


def test_pods_with_units_are_counted(book: Book) -> None:
    """The book counts the pods that the API shows and those that only the book knows. A pod on two nodes counts once."""
    book.set_pod(pod("1", on="n", card=0))
    book.set_pod(pod("2", on="elsewhere", card=0))
    for name in ("n", "m"):
        book.assume(name, booking("3", 2, 0))
    assert book.booked_pods() == (2, 1)
    book.set_pod(pod("3", on="n", card=0))
    assert book.booked_pods() == (3, 0)


def test_what_was_read_of_a_node_does_not_change(book: Book) -> None:
    """Each state of a node is a value; the book holds another one after a change."""
    before = book.snapshot().nodes["n"]
    book.assume("n", booking("a", 3, 0))

    assert before.devices[0].used == 0
    assert book.snapshot().nodes["n"].devices[0].used == 3


def test_wish_on_a_running_pod_does_not_touch_its_booking(book: Book) -> None:
    """Readable or not: it has its card. A group counts from then on."""
    running = pod("a", 3, on="n", card=0)
    for wish in ({"gpushare.aliyun.com/policy": "nonsense"}, {"gpushare.aliyun.com/same-card": "g"}):
        running.metadata.annotations = {"ALIYUN_COM_GPU_MEM_IDX": "0", **wish}
        assert book.set_pod(running) is None
        assert used(book) == [3, 0]

    assert [one.group for one in book.snapshot().nodes["n"].bookings] == ["default/g"]


def test_what_pods_come_is_seen_once_each() -> None:
    """When the API shows them bound with cards; not as assumed, not again at a change."""
    workload = Workload()
    book = Book(workload)
    book.set_node(node())
    book.assume("n", booking("b", 5, 1))
    assert book.snapshot().outlook() is None
    for units in (3, 4):
        book.set_pod(pod("a", units, on="n", card=0))
    wished = pod("c", 2, on="n", card=1)
    wished.metadata.annotations |= {wire.WISH_MODEL: "T4", wire.WISH_POLICY: "spread"}  # type: ignore[operator]
    book.set_pod(wished)
    nowhere = pod("d", 2, on="n", card=1)
    nowhere.metadata.annotations = None
    book.set_pod(nowhere)

    outlook = workload.outlook()
    assert outlook is not None
    assert outlook.counts == {PodClass(3): 1, PodClass(2, wishes=Wishes(models=(" t4 ",))): 1}


def test_a_correction_counts_no_pod_twice() -> None:
    """A corrected pod counts once, in the outlook and by its CPU, although its card was written after the binding."""
    workload = Workload(counts_cpu=True)
    book = Book(workload)
    book.set_node(node(cpu="8"))
    late = pod("a", 3, on="n", cpu="1")
    book.set_pod(late)
    assert workload.outlook() is None
    for _ in range(3):
        book.correct(pod("a", 3, on="n", card=0, cpu="1"))

    outlook = workload.outlook()
    assert outlook is not None
    assert dict(outlook.counts) == {PodClass(3, cpu_milli=1000): 1}
    assert dict(book.snapshot().free_cpu) == {"n": 7000}
    book.correct(pod("a", 3, cpu="1"))
    assert dict(book.snapshot().free_cpu) == {"n": 8000}


def test_free_cpu_is_what_no_pod_of_the_node_asks_for() -> None:
    """The CPU of every pod counts until it has ended; and the costs of a node are worked out again then."""
    book = Book(Workload(counts_cpu=True, expected=Outlook({PodClass(4): 1})))
    book.set_node(node(cpu="8"))
    free = book.snapshot().free_cpu
    asked = question(Request(4), book.snapshot(), "fragmentation", 1000)

    def costs() -> dict[str, float]:
        found = book.answers.costs(asked)
        assert found is not None
        return found

    costs()["n"] = 1.0
    book.set_pod(pod("plain", 0, on="n", cpu="2500m"))
    assert (dict(free), costs()) == ({"n": 5500}, {})
    book.set_pod(pod("a", 3, on="n", card=0, cpu="1"))
    costs()["n"] = 1.0
    book.set_pod(pod("a", 3, on="n", card=0, cpu="1"))
    book.set_pod(pod("elsewhere", 0, on="m", cpu="1"))
    assert dict(free) == {"n": 4500}
    book.remove_pod(pod("plain").metadata)
    assert (dict(free), costs()) == ({"n": 7000}, {})
    book.set_pod(pod("a", 3, on="n", card=0, phase="Succeeded"))
    assert dict(free) == {"n": 8000}


def test_an_assumed_pod_has_its_cpu() -> None:
    """The next pod may come before the watch shows this one; a bind that was refused gives it back, on its own node alone."""
    workload = Workload(counts_cpu=True, expected=Outlook({PodClass(4): 1}))
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
    assert (dict(free), set(workload._pods)) == ({"n": 5500, "m": 8000}, {"a"})


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
    assert [book.set_node(node(**changed)) for changed in ({}, {"memory": 40}, {"count": 1}, {"name": "m"})] == [
        False,
        False,
        True,
        True,
    ]


def test_the_fate_of_a_pod_is_what_was_shown_last(book: Book) -> None:
    """Unknown, waiting, bound at a version, or gone."""
    metadata = pod("a").metadata
    fates = [book.fate_of(metadata)]
    for state in (pod("a"), pod("a", on="n", card=0, version=7)):
        book.set_pod(state)
        fates.append(book.fate_of(metadata))
    book.remove_pod(metadata)

    assert [*fates, book.fate_of(metadata)] == [
        Fate(State.UNKNOWN),
        Fate(State.PENDING),
        Fate(State.BOUND, 7),
        Fate(State.GONE),
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
    """Nor an assumption on another node."""
    book.set_node(node("m"))
    book.set_pod(pod("b", 3, on="n", card=0))
    book.forget("b", "n")
    book.assume("n", booking("a", 3, 1))
    book.forget("a", "m")
    assert (used(book), book.booked_pods()) == ([3, 3], (1, 1))
    book.forget("a", "n")
    assert (used(book), book.booked_pods()) == ([3, 0], (1, 0))


def test_a_refusal_of_a_node_is_known(book: Book) -> None:
    """A node that reports ten thousand cards is refused."""
    book.set_node(node("huge", 10_000, 10_000))

    assert (book.refusal_of("n"), book.refusal_of("x"), book.devices("x")) == (None, None, None)
    assert (book.refusal_of("huge"), book.snapshot().nodes["huge"].refusal) == (CARDS_OF_A_NODE.refusal,) * 2


def test_restores_are_counted(book: Book) -> None:
    """An audit settles nothing over one."""
    assert [book.begin_anew(), book.begin_anew(), book.restores] == [None, None, 2]


class BookMachine(RuleBasedStateMachine):
    """Pods are born, assumed, bound, refused, ended; events come late, twice, or not at all until a new list.

    The model keeps for each pod the last state that the book got, and adds it all up from scratch.
    """

    def __init__(self) -> None:
        super().__init__()
        self.book = Book()
        self.cards = {"n": [14, 14], "m": [10]}
        self.book.set_node(node("n", 28, 2))
        self.book.set_node(node("m", 10, 1))
        self.numbers = itertools.count()
        self.units: dict[str, int] = {}
        self.api: dict[str, tuple[str, int] | None] = {}
        self.shown: dict[str, tuple[str, int]] = {}
        self.assumed: dict[tuple[str, str], int] = {}
        self.ended: set[str] = set()

    def pick(self, choice: int, uids: list[str]) -> str:
        return uids[choice % len(uids)]

    @rule(units=st.integers(1, 15))
    def born(self, units: int) -> None:
        uid = f"u{next(self.numbers)}"
        self.units[uid] = units
        self.api[uid] = None
        self.book.set_pod(pod(uid, units, name=f"name-{len(uid) % 3}"))

    @precondition(lambda self: self.api)
    @rule(choice=st.integers(0, 99), where=st.sampled_from(["n", "m"]))
    def assume(self, choice: int, where: str) -> None:
        """As bind does before its request: only a pod that fits is assumed."""
        uid = self.pick(choice, list(self.api))
        info = self.book.snapshot().nodes.get(where)
        if info is None or self.api[uid] is not None or (uid, where) in self.assumed or uid in self.shown:
            return
        try:
            ((index, _),) = choose(info, Question(Request(self.units[uid])))
        except DoesNotFitError:
            return
        self.book.assume(where, booking(uid, self.units[uid], index))
        self.assumed[uid, where] = index

    @precondition(lambda self: self.assumed)
    @rule(choice=st.integers(0, 99), event=st.booleans())
    def bound(self, choice: int, event: bool) -> None:
        """The API took the bind; the event comes now or later."""
        uid, where = list(self.assumed)[choice % len(self.assumed)]
        if self.api.get(uid, ("", 0)) is None:
            self.api[uid] = (where, self.assumed[uid, where])
        if event:
            self.show(uid)

    @precondition(lambda self: self.assumed)
    @rule(choice=st.integers(0, 99))
    def refused(self, choice: int) -> None:
        uid, where = list(self.assumed)[choice % len(self.assumed)]
        if self.api.get(uid) is None or self.api[uid] != (where, self.assumed[uid, where]):
            self.book.forget(uid, where)
            del self.assumed[uid, where]

    @precondition(lambda self: self.api)
    @rule(choice=st.integers(0, 99))
    def event(self, choice: int) -> None:
        """A late or repeated event."""
        self.show(self.pick(choice, list(self.api)))

    @precondition(lambda self: self.shown)
    @rule(choice=st.integers(0, 99), card=st.sampled_from([None, "", "x", 0, 1, 2]), starts=st.booleans())
    def its_author_writes(self, choice: int, card: object, starts: bool) -> None:
        """Another card, none or nonsense, after the bind: nothing of the book changes, for the watch shows no repair."""
        uid = self.pick(choice, list(self.shown))
        place = self.shown[uid]
        if starts:
            self.book.set_pod(pod(uid, self.units[uid], on=place[0], card=place[1], phase="Running"), has_gap=False)
        self.book.set_pod(pod(uid, self.units[uid], on=place[0], card=card), has_gap=False)

    @precondition(lambda self: self.api)
    @rule(choice=st.integers(0, 99), finished=st.booleans(), stale=st.booleans())
    def end(self, choice: int, finished: bool, stale: bool) -> None:
        """A pod finishes or is deleted; an older event may follow."""
        uid = self.pick(choice, list(self.api))
        place = self.api.pop(uid)
        if place is not None and finished:
            self.book.set_pod(pod(uid, self.units[uid], on=place[0], card=place[1], phase="Succeeded"))
        else:
            self.book.remove_pod(ObjectMeta(name="any", namespace="default", uid=uid))
        self.ended.add(uid)
        self.shown.pop(uid, None)
        self.assumed = {key: card for key, card in self.assumed.items() if key[0] != uid}
        if stale and place is not None:
            self.book.set_pod(pod(uid, self.units[uid], on=place[0], card=place[1]))

    @rule(gone=st.booleans())
    def node_changes(self, gone: bool) -> None:
        """A Node object goes, or comes with other cards."""
        if gone:
            self.book.remove_node("m")
            self.cards.pop("m", None)
        else:
            self.cards["m"] = [9, 9]
            self.book.set_node(node("m", 18, 2))

    def show(self, uid: str) -> None:
        place = self.api[uid]
        if place is None:
            self.book.set_pod(pod(uid, self.units[uid]))
            return
        self.book.set_pod(pod(uid, self.units[uid], on=place[0], card=place[1]))
        self.shown[uid] = place
        self.assumed = {key: card for key, card in self.assumed.items() if key[0] != uid}

    @invariant()
    def agrees_with_the_naive_sum(self) -> None:
        for name, cards in self.cards.items():
            expected = [0] * len(cards)
            places = [
                *((uid, place) for uid, place in self.shown.items()),
                *((uid, (where, card)) for (uid, where), card in self.assumed.items()),
            ]
            for uid, (where, card) in places:
                if where == name and card < len(cards):
                    expected[card] += self.units[uid]

            assert [device.used for device in self.book.snapshot().nodes[name].devices] == expected

    @invariant()
    def nothing_that_is_bound_is_free(self) -> None:
        """Safety: a card's book is never below what the API binds to it."""
        for name, cards in self.cards.items():
            for card, _ in enumerate(cards):
                bound = sum(self.units[uid] for uid, place in self.api.items() if place == (name, card))

                assert self.book.snapshot().nodes[name].devices[card].used >= bound


BookMachine.TestCase.settings = settings(max_examples=3 * settings().max_examples // 2, stateful_step_count=40)
test_the_book_agrees_with_a_naive_model = BookMachine.TestCase


def slotted_node(*slots: int, units: int = 100) -> Node:
    """A node in slots mode with this many slots a card."""
    cards = tuple(CardFacts(index, f"GPU-{index}", "m", units, units, one) for index, one in enumerate(slots))
    annotation = encode_cards(NodeCards(1, "slots", "MiB", "", cards))
    status = {"capacity": {MEMORY: str(units * len(slots)), COUNT: str(len(slots))}}
    return msgspec.convert(
        {"metadata": {"name": "n", "annotations": {"aliyun.com/gpushare-cards": annotation}}, "status": status}, Node
    )


def test_slots_are_booked_and_come_back_like_units() -> None:
    """Assumed, confirmed as the pod's own containers say, and free when it is gone."""
    book = Book()
    book.set_node(slotted_node(2, 2))
    slots = lambda: [device.slots_used for device in book.snapshot().nodes["n"].devices]  # noqa: E731
    book.assume("n", Booking("u", "default", "u", 5, ((1, 5),), 2))
    assert slots() == [0, 2]
    bound = pod("u", 5, on="n", card=1)
    book.set_pod(bound)
    assert slots() == [0, 1]
    two = pod("v", 5, on="n", card=0)
    assert two.spec.containers is not None
    two.spec.containers.append(two.spec.containers[0])
    book.set_pod(two)
    assert slots() == [2, 1]
    book.remove_pod(two.metadata)
    book.remove_pod(bound.metadata)
    assert slots() == [0, 0]


def test_a_node_that_changes_its_mode_is_counted_again() -> None:
    """A node counts slots from the moment its annotation has them: its mode is not frozen at first sight."""
    book = Book()
    book.set_node(node("n", 200, 2))
    book.set_pod(pod("u", 5, on="n", card=0))
    assert not book.snapshot().nodes["n"].counts_slots
    book.set_node(slotted_node(1, 3))
    info = book.snapshot().nodes["n"]
    assert (info.counts_slots, [device.free_slots for device in info.devices]) == (True, [0, 3])
