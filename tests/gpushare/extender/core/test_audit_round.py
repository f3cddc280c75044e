"""Tests of ``audit_round``: each lets one event arrive between the list, the question about a suspect, and the answer."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import msgspec
import pytest

from gpushare.extender.core.audit_round import (
    MOST_ODD,
    Difference,
    Known,
    Round,
    assigned_shares,
    cards_disputed,
    over_committed,
    pod_difference,
    unplaced,
    wanted_of,
)
from gpushare.extender.core.book import Book
from gpushare.extender.core.event_marks import EventMarks
from gpushare.extender.follow.audit import has_passed
from gpushare.manifests import Node, Pod
from gpushare.model.node import Booking

MEMORY, COUNT = "aliyun.com/gpu-mem", "aliyun.com/gpu-count"


def node(cards: int = 2, version: str = "1", annotation: str | None = None) -> Node:
    """Cards of 14."""
    metadata = {
        "name": "n",
        "resourceVersion": version,
        "annotations": {"aliyun.com/gpushare-cards": annotation} if annotation else None,
    }
    return msgspec.convert(
        {"metadata": metadata, "status": {"capacity": {MEMORY: str(14 * cards), COUNT: str(cards)}}}, Node
    )


def pod(on: str | None = "n", card: object = 0, version: str = "5", units: object = 3, **more: str) -> Pod:
    """The pod ``d/p``, at one version."""
    annotations = {**({"ALIYUN_COM_GPU_MEM_IDX": str(card)} if on and card is not None else {}), **more}
    metadata = {"name": "p", "namespace": "d", "uid": "u", "resourceVersion": version, "annotations": annotations}
    spec = {"nodeName": on, "containers": [{"name": "c", "resources": {"limits": {MEMORY: str(units)}}}]}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": {"phase": "Running"}}, Pod)


@dataclass
class Stage:
    """A book that listens, and what may be under way."""

    book: Book = field(default_factory=Book)
    under_way: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.book.set_node(node())
        self.book.events.start()

    def listed(
        self, *pods: Pod, nodes: Collection[Node] = (node(),), old: Collection[tuple[str, str]] = ()
    ) -> tuple[Round, list[Difference]]:
        audit = Round(self.book, lambda namespace, name, uid: uid in self.under_way, old)
        for one in nodes:
            audit.see_node(one)
        for each in pods:
            audit.see_pod(each)
        return audit, audit.end()

    def asked(
        self, *pods: Pod, nodes: Collection[Node] = (node(),), old: Collection[tuple[str, str]] = ()
    ) -> tuple[Round, Difference, int]:
        """Up to the question about the one suspect."""
        audit, (suspect,) = self.listed(*pods, nodes=nodes, old=old)
        mark = audit.ask(suspect)
        assert mark is not None
        return audit, suspect, mark

    def used(self) -> list[int]:
        return [device.used for device in self.book.snapshot().nodes["n"].devices]

    def assume(self) -> None:
        self.book.assume("n", Booking("u", "d", "p", 3, ((0, 3),)))


def test_pod_deleted_before_its_answer_is_not_booked() -> None:
    """The watch lost the event of its bind, but not that of its deletion."""
    on = Stage()
    audit, suspect, mark = on.asked(pod())
    on.book.remove_pod(pod().metadata)
    assert audit.answer_pod(suspect, pod(), mark) is None
    assert on.used() == [0, 0]


def test_pod_moved_before_its_answer_stays_with_the_watch() -> None:
    """The answer is older than the watch's event."""
    on = Stage()
    audit, suspect, mark = on.asked(pod())
    on.book.set_pod(pod(card=1, version="6"))
    assert audit.answer_pod(suspect, pod(), mark) is None
    assert on.used() == [0, 3]


@pytest.mark.parametrize("again", [True, False])
def test_bind_between_question_and_answer_keeps_its_card(again: bool) -> None:
    """A bind that renews an old assumption keeps its card too, because the answer is older than that bind."""
    on = Stage()
    on.book.set_pod(pod(None))
    on.assume()
    audit, suspect, mark = on.asked(pod(None), old={("u", "n")})
    if again:
        on.book.events.note("u")
    else:
        on.book.forget("u", "n")
        on.assume()
    assert audit.answer_pod(suspect, pod(None), mark) is None
    assert on.used() == [3, 0]


def test_waiting_pod_bound_before_its_answer_keeps_its_card() -> None:
    """The watch lost only the pod's creation; the bind read the pod from the API."""
    on = Stage()
    audit, suspect, mark = on.asked(pod(None))
    on.assume()
    assert audit.answer_pod(suspect, pod(None), mark) is None
    assert on.used() == [3, 0]


def test_a_bind_under_way_is_not_looked_into() -> None:
    """A pod with a bind under way becomes no suspect, is not asked for, and no answer about it counts."""
    on = Stage()
    on.under_way.add("u")
    assert on.listed(pod())[1] == []
    on.under_way.clear()
    audit, suspect, mark = on.asked(pod())
    on.under_way.add("u")
    assert audit.ask(suspect) is None
    assert audit.answer_pod(suspect, pod(), mark) is None


def test_a_young_assumption_is_no_drift_and_an_old_one_is() -> None:
    """The caller passes which assumptions are old."""
    on = Stage()
    on.book.set_pod(pod(None))
    on.assume()
    assert on.listed(pod(None))[1] == []
    audit, suspect, mark = on.asked(pod(None), old={("u", "n")})
    found = audit.answer_pod(suspect, pod(None), mark)
    assert found is not None
    assert (found.kind, found.units, on.used()) == ("stale_assumption", 3, [0, 0])
    assert on.book.pending_pod("d", "p") is not None


def test_pod_changed_since_the_list_is_left_to_the_watch() -> None:
    """Ahead of the watch it could stand on a card beside one that has yet to leave it, and another card would look free."""
    on = Stage()
    on.book.set_pod(pod(version="4"))
    audit, suspect, mark = on.asked(pod(units=4))
    assert audit.answer_pod(suspect, pod(units=4, version="6"), mark) is None
    assert on.used() == [3, 0]


def test_another_pod_under_the_name_is_the_end_of_the_first() -> None:
    """A pod is its uid."""
    on = Stage()
    on.book.set_pod(pod())
    other = pod()
    other.metadata.uid = "v"
    audit, suspects = on.listed(other)
    assert [(one.kind, one.uid) for one in suspects] == [("phantom", "u"), ("missing", "v")]
    for suspect in suspects:
        mark = audit.ask(suspect)
        assert mark is not None
        assert audit.answer_pod(suspect, other, mark) is not None
    assert on.book.uids() == {"v"}


def test_a_pod_with_a_wrongly_reported_end_comes_back() -> None:
    """An API server that was restored from a backup, for instance."""
    on = Stage()
    on.book.remove_pod(pod().metadata)
    audit, suspect, mark = on.asked(pod(card=1))
    found = audit.answer_pod(suspect, pod(card=1), mark)
    assert found is not None
    assert (found.kind, on.used()) == ("missing", [0, 3])


def test_an_object_with_an_event_during_the_list_is_no_suspect() -> None:
    """The book may be newer than the list, at its end and again before the question."""
    on = Stage()
    audit = Round(on.book, lambda *_: False)
    on.book.set_pod(pod(card=1, version="6"))
    audit.see_pod(pod())
    assert not any(one.uid == "u" for one in audit.end())
    audit, suspect, _ = on.asked(pod(units=4, version="7"))
    on.book.set_pod(pod(units=4, version="7"))
    assert audit.ask(suspect) is None


def test_a_suspect_that_is_right_after_all_is_no_drift() -> None:
    """A suspect is no drift if the API shows it as the book has it, or if it has gone from both."""
    on = Stage()
    on.book.set_pod(pod())
    gone = Difference("phantom", "d", "p", "u", 3, version="5")
    audit = Round(on.book, lambda *_: False)
    assert audit.answer_pod(gone, pod(), on.book.events.mark()) is None
    here = Difference("node_phantom", "", "n", "n", 28, version="1", is_node=True)
    assert audit.answer_node(here, node(), on.book.events.mark()) is None
    assert on.used() == [3, 0]
    other = Difference("pending_phantom", "d", "q", "v", 0)
    assert audit.answer_pod(other, None, on.book.events.mark()) is None


def test_a_pod_that_the_api_shows_unbound_holds_nothing() -> None:
    """Restored from before its bind."""
    on = Stage()
    on.book.set_pod(pod())
    audit, suspect, mark = on.asked(pod(None))
    found = audit.answer_pod(suspect, pod(None), mark)
    assert found is not None
    assert (found.kind, found.book, found.api, on.used()) == ("phantom", "n:0=3", "not bound", [0, 0])


def test_a_node_is_put_right_unless_it_had_an_event() -> None:
    """Gone, or with other cards."""
    on = Stage()
    audit, suspect, mark = on.asked(nodes=())
    on.book.set_node(node())
    assert audit.answer_node(suspect, None, mark) is None
    audit, suspect, mark = on.asked(nodes=[node(3)])
    on.book.remove_node("n")
    assert audit.answer_node(suspect, node(3), mark) is None
    audit, suspect, mark = on.asked(nodes=[node(3)])
    found = audit.answer_node(suspect, node(3), mark)
    assert found is not None
    assert (found.kind, found.units, on.used()) == ("node_missing", 42, [0, 0, 0])


def test_cards_that_were_declared_sick_are_no_drift() -> None:
    """The list does not know of the ConfigMap."""
    on = Stage()
    on.book.set_unhealthy("n", frozenset({0}))
    assert on.listed()[1] == []


def test_odd_pods_are_remembered_up_to_a_number() -> None:
    """A cluster full of them must not fill the memory."""
    on = Stage()
    audit, _ = on.listed(*[pod(card=None) for _ in range(MOST_ODD + 5)])
    assert (len(audit.odd), {one.kind for one in audit.odd}) == (MOST_ODD, {"unplaced"})


def test_absent_card_places_nothing_unless_no_cards_are_shown() -> None:
    """A node with a plugin that is not up yet has no description of its cards."""
    wrong = pod(card=7)
    wanted = wanted_of(wrong)
    assert wanted is not None
    on = Stage()
    found = unplaced(wrong, wanted[1], on.book.devices("n"))
    assert found is not None
    assert found.units == 3
    assert unplaced(wrong, wanted[1], ()) is None


def test_an_annotation_that_contradicts_the_capacity_is_disputed() -> None:
    """The book divides total by count there."""
    found = cards_disputed(node(annotation="{}"))
    assert found is not None
    assert (found.kind, found.name, found.units) == ("cards_disputed", "n", 28)
    assert cards_disputed(node()) is None


@pytest.mark.parametrize(
    ("annotations", "shares"),
    [
        ({"ALIYUN_COM_GPU_MEM_ASSIGNED": "true"}, ((0, 3),)),
        ({"ALIYUN_COM_GPU_MEM_ASSIGNED": "false"}, ()),
        ({"ALIYUN_COM_GPU_MEM_ASSIGNED": "true", "ALIYUN_COM_GPU_MEM_REPAIR": "1"}, ()),
        ({"ALIYUN_COM_GPU_MEM_IDX": "x"}, ()),
    ],
)
def test_what_the_plugin_let_a_pod_have(annotations: dict[str, str], shares: tuple[tuple[int, int], ...]) -> None:
    """A pod with ASSIGNED=true has its card; a pod with a repair mark has none yet."""
    bound = pod(**annotations)
    wanted = wanted_of(bound)
    assert wanted is not None
    assert assigned_shares(bound, wanted[1]) == shares


def test_a_pod_of_several_cards_is_compared_card_by_card() -> None:
    """A pod on the same cards with other amounts has another amount. An assumption beside its booking is an old one."""
    many = pod(units=12, **{"scheduler.framework.gpushare.allocation": '{"0":{"0":4,"1":8}}'})
    wanted = wanted_of(many)
    assert wanted is not None
    had = Booking("u", "d", "p", 12, ((0, 8), (1, 4)))
    found = pod_difference(Known(confirmed=("n", had)), many.metadata, many, wanted)
    assert found is not None
    assert (found.kind, found.units, found.book, found.api) == ("other_amount", 4, "n:0=8+n:1=4", "n:0=4+n:1=8")
    found = pod_difference(Known(confirmed=wanted, assumed=(("m", had),)), many.metadata, many, wanted)
    assert found is not None
    assert (found.kind, found.units) == ("stale_assumption", 12)


@pytest.mark.parametrize(
    ("seen", "version", "passed"),
    [("5", "5", True), ("10", "9", True), ("9", "10", False), ("x", "x", True), ("x", "10", False), ("", "1", False)],
)
def test_versions_are_compared_where_they_are_numbers(seen: str, version: str, passed: bool) -> None:
    """Versions that are no numbers can only be equal or unknown."""
    assert has_passed(seen, version) is passed


def test_without_a_record_any_event_may_have_come() -> None:
    """Every object counts as changed without a record, and a new record forgets what came before it."""
    heard = EventMarks()
    heard.note("a")
    assert heard.since("a", heard.mark())
    heard.start()
    mark = heard.mark()
    heard.note("b")
    assert (heard.since("a", mark), heard.since("b", mark), heard.since("b", heard.mark())) == (False, True, False)
    heard.stop()
    assert heard.since("a", mark)


def test_only_cards_that_run_too_much_are_over_committed() -> None:
    """A card that the book does not know is never called over-committed."""
    on = Stage()
    cards = on.book.devices("n")
    found = over_committed("n", 0, 15, cards)
    assert found is not None
    assert (found.uid, found.units) == ("n/0", 1)
    assert [over_committed("n", 1, 14, cards), over_committed("n", 7, 99, cards), over_committed("m", 0, 1, None)] == [
        None
    ] * 3


@pytest.mark.parametrize(("card", "kind"), [(0, "unconfirmed"), (1, "other_card")])
def test_an_assumption_is_compared_with_what_was_bound(card: int, kind: str) -> None:
    """On the card that was assumed the bind is only unconfirmed; another card is named as such."""
    booking = Booking("u", "d", "p", 3, ((0, 3),))
    bound = pod(card=card)
    found = pod_difference(Known(assumed=(("n", booking),)), bound.metadata, bound, wanted_of(bound))
    assert found is not None
    assert found.kind == kind
